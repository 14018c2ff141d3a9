//! The random numbers behind published arrivals: NumPy's legacy generator (a Mersenne Twister seeded
//! with one number) and its gamma variates of a shape below one (Ahrens and Dieter).

const WORDS: usize = 624;

pub(super) struct PublishedRandom {
    state: [u32; WORDS],
    next: usize,
}

impl PublishedRandom {
    pub(super) fn new(seed: u32) -> Self {
        let mut state = [0; WORDS];
        state[0] = seed;
        for place in 1..WORDS {
            let before = state[place - 1];
            let mixed = before ^ (before >> 30);
            state[place] = mixed.wrapping_mul(1_812_433_253).wrapping_add(place as u32);
        }
        Self { state, next: WORDS }
    }

    fn word(&mut self) -> u32 {
        if self.next == WORDS {
            for place in 0..WORDS {
                let high = self.state[place] & 0x8000_0000;
                let joined = high | (self.state[(place + 1) % WORDS] & 0x7fff_ffff);
                let twist = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[place] = self.state[(place + 397) % WORDS] ^ (joined >> 1) ^ twist;
            }
            self.next = 0;
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    fn uniform(&mut self) -> f64 {
        let (high, low) = (f64::from(self.word() >> 5), f64::from(self.word() >> 6));
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    /// A gamma variate of mean `shape * scale`, for shapes below one.
    pub(super) fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        loop {
            let uniform = self.uniform();
            let exponential = -(1.0 - self.uniform()).ln();
            if uniform <= 1.0 - shape {
                let variate = uniform.powf(1.0 / shape);
                if variate <= exponential {
                    return scale * variate;
                }
            } else {
                let rest = -((1.0 - uniform) / shape).ln();
                let variate = (1.0 - shape + shape * rest).powf(1.0 / shape);
                if variate <= exponential + rest {
                    return scale * variate;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_numpy() {
        // numpy.random.seed(0); numpy.random.rand(2)
        let mut random = PublishedRandom::new(0);
        assert_eq!(
            format!("{:.8} {:.8}", random.uniform(), random.uniform()),
            "0.54881350 0.71518937"
        );
        // numpy.random.seed(3); numpy.random.gamma(1/16, 2.0, size=3)
        let mut random = PublishedRandom::new(3);
        let expect = [1.435_180_22e-4, 5.260_690_27e-9, 3.267_687_83e-1];
        for expect in expect {
            assert!((random.gamma(1.0 / 16.0, 2.0) / expect - 1.0).abs() < 1e-7);
        }
    }
}
