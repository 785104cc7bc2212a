//! The seeded generator: PCG64 (XSL-RR 128/64) behind a seed sequence, the same numbers as numpy's `default_rng`.
//!
//! Source: O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number
//! Generation" (2014); NEP 19 for the seed sequence.

use super::ziggurat::{HEIGHT, INSIDE, WIDTH};

const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// Words of a seed, and which child of which parent this is.
#[derive(Debug, Clone)]
pub(super) struct Seed {
    entropy: Vec<u32>,
    path: Vec<u32>,
    children: u32,
}

impl Seed {
    pub(super) fn new(entropy: Vec<u32>) -> Self {
        Self { entropy, path: Vec::new(), children: 0 }
    }

    /// The next child.
    pub(super) fn spawn(&mut self) -> Self {
        let mut path = self.path.clone();
        path.push(self.children);
        self.children = self.children.wrapping_add(1);
        Self { entropy: self.entropy.clone(), path, children: 0 }
    }

    pub(super) fn depth(&self) -> usize {
        self.path.len()
    }

    fn pool(&self) -> [u32; 4] {
        const A: u32 = 0x931e_8875;
        let mut words = self.entropy.clone();
        if !self.path.is_empty() {
            while words.len() < 4 {
                words.push(0);
            }
            words.extend(&self.path);
        }
        let mut constant = 0x43b0_d7e5u32;
        let mut hash = move |value: u32| {
            let mut v = value ^ constant;
            constant = constant.wrapping_mul(A);
            v = v.wrapping_mul(constant);
            v ^ (v >> 16)
        };
        let mix = |x: u32, y: u32| {
            let r = 0xca01_f9ddu32.wrapping_mul(x).wrapping_sub(0x4973_f715u32.wrapping_mul(y));
            r ^ (r >> 16)
        };
        let mut pool = [0u32; 4];
        for (i, slot) in pool.iter_mut().enumerate() {
            *slot = hash(words.get(i).copied().unwrap_or(0));
        }
        for from in 0..4 {
            for to in 0..4 {
                if from != to {
                    let h = hash(pool[from]);
                    pool[to] = mix(pool[to], h);
                }
            }
        }
        for word in words.iter().skip(4) {
            for slot in &mut pool {
                let h = hash(*word);
                *slot = mix(*slot, h);
            }
        }
        pool
    }

    fn state(&self) -> [u64; 4] {
        let pool = self.pool();
        let mut constant = 0x8b51_f9ddu32;
        let mut out = [0u32; 8];
        for (i, slot) in out.iter_mut().enumerate() {
            let mut v = pool[i % 4] ^ constant;
            constant = constant.wrapping_mul(0x58f3_8ded);
            v = v.wrapping_mul(constant);
            *slot = v ^ (v >> 16);
        }
        [0, 2, 4, 6].map(|i| u64::from(out[i]) | u64::from(out[i + 1]) << 32)
    }
}

/// A generator's state.
#[derive(Debug, Clone)]
pub(super) struct Pcg64 {
    state: u128,
    increment: u128,
    /// The upper half of the last word of which only 32 bits were asked for.
    half: Option<u32>,
}

impl Pcg64 {
    pub(super) fn new(seed: &Seed) -> Self {
        let [a, b, c, d] = seed.state();
        let start = u128::from(a) << 64 | u128::from(b);
        let sequence = u128::from(c) << 64 | u128::from(d);
        let mut pcg = Self { state: 0, increment: sequence << 1 | 1, half: None };
        pcg.step();
        pcg.state = pcg.state.wrapping_add(start);
        pcg.step();
        pcg
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    pub(super) fn word(&mut self) -> u64 {
        self.step();
        (((self.state >> 64) as u64) ^ self.state as u64).rotate_right((self.state >> 122) as u32)
    }

    fn half_word(&mut self) -> u32 {
        if let Some(half) = self.half.take() {
            return half;
        }
        let word = self.word();
        self.half = Some((word >> 32) as u32);
        word as u32
    }

    /// From 0 up to but not including 1.
    pub(super) fn double(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From 0 to `top` inclusive, each equally likely.
    pub(super) fn up_to(&mut self, top: u64) -> u64 {
        if top == 0 {
            return 0;
        }
        if top == u64::MAX {
            return self.word();
        }
        if let Ok(top) = u32::try_from(top) {
            if top == u32::MAX {
                return u64::from(self.half_word());
            }
            let span = top + 1;
            let mut m = u64::from(self.half_word()) * u64::from(span);
            if (m as u32) < span {
                let threshold = (u32::MAX - top) % span;
                while (m as u32) < threshold {
                    m = u64::from(self.half_word()) * u64::from(span);
                }
            }
            return m >> 32;
        }
        let span = top + 1;
        let mut m = u128::from(self.word()) * u128::from(span);
        if (m as u64) < span {
            let threshold = (u64::MAX - top) % span;
            while (m as u64) < threshold {
                m = u128::from(self.word()) * u128::from(span);
            }
        }
        (m >> 64) as u64
    }

    /// From 0 to `top` inclusive by masks: what the shuffling of a list uses.
    pub(super) fn masked(&mut self, top: u64) -> u64 {
        if top == 0 {
            return 0;
        }
        let mask = u64::MAX >> top.leading_zeros();
        loop {
            let word = if top > u64::from(u32::MAX) { self.word() } else { u64::from(self.half_word()) };
            if word & mask <= top {
                return word & mask;
            }
        }
    }

    /// A normal number with mean 0 and deviation 1.
    pub(super) fn normal(&mut self) -> f64 {
        const R: f64 = 3.654_152_885_361_009;
        loop {
            let word = self.word();
            let layer = (word & 0xff) as usize;
            let negative = word >> 8 & 1 == 1;
            let step = word >> 9 & 0x000f_ffff_ffff_ffff;
            let magnitude = step as f64 * f64::from_bits(WIDTH[layer]);
            let x = if negative { -magnitude } else { magnitude };
            if step < INSIDE[layer] {
                return x;
            }
            if layer == 0 {
                loop {
                    let a = -libm::log1p(-self.double()) / R;
                    let b = -libm::log1p(-self.double());
                    if b + b > a * a {
                        return if step >> 8 & 1 == 1 { -(R + a) } else { R + a };
                    }
                }
            }
            let (outer, inner) = (f64::from_bits(HEIGHT[layer - 1]), f64::from_bits(HEIGHT[layer]));
            if (outer - inner) * self.double() + inner < libm::exp(-0.5 * x * x) {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeded(seed: u32) -> Pcg64 {
        Pcg64::new(&Seed::new(vec![seed]))
    }

    #[test]
    fn doubles_are_those_of_numpy() {
        let mut g = seeded(42);
        for expected in [0.773_956_048_555_963_3, 0.438_878_439_752_052_3, 0.858_597_919_911_382_5] {
            assert_eq!(g.double(), expected);
        }
    }

    #[test]
    fn integers_are_those_of_numpy() {
        let mut g = seeded(42);
        let drawn: Vec<u64> = (0..10).map(|_| g.up_to(9)).collect();
        assert_eq!(drawn, [0, 7, 6, 4, 4, 8, 0, 6, 2, 0]);
    }

    #[test]
    fn normals_are_those_of_numpy_to_the_last_places() {
        let mut g = seeded(42);
        for expected in [0.304_717_079_754_431_35, -1.039_984_106_240_495_5, 0.750_451_195_806_457_2] {
            assert!((g.normal() - expected).abs() < 1e-12);
        }
    }
}
