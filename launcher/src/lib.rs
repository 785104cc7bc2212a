//! thirdwall's launcher.
