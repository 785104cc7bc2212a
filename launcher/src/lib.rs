//! thirdwall's launcher.

