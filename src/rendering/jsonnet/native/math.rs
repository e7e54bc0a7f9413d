//! Functions of numbers with the same last digits as in Go's library. The series and the order of operations equal
//! Go's, because another order rounds differently.

/// The logarithm of two as a sum of two parts. The product of the first part and an exponent is exact.
const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
/// The factors of the even powers in the series of the logarithm.
const LOG_EVEN: [f64; 3] = [
    f64::from_bits(0x3fd9_9999_9997_fa04),
    f64::from_bits(0x3fcc_71c5_1d8e_78af),
    f64::from_bits(0x3fc3_9a09_d078_c69f),
];
/// The factors of the odd powers.
const LOG_ODD: [f64; 4] = [
    f64::from_bits(0x3fe5_5555_5555_5593),
    f64::from_bits(0x3fd2_4924_9422_9359),
    f64::from_bits(0x3fc7_4664_96cb_03de),
    f64::from_bits(0x3fc2_f112_df3e_5244),
];
/// Bits of the fraction of a number.
const FRACTION_BITS: u32 = 52;
/// The stored exponent of a number from 1/2 up to 1.
const EXPONENT_OF_HALF: u64 = 1_022;
/// The mask of the exponent bits, shifted to the low end.
const EXPONENT_MASK: u64 = 0x7ff;
/// The exponent from which on a power overflows or underflows.
const EXPONENT_MAX: i64 = 1 << 12;

/// Splits a number into a fraction from 1/2 up to 1 and an exponent of two.
pub(in crate::rendering::jsonnet) fn frexp(number: f64) -> (f64, f64) {
    if number == 0.0 || !number.is_finite() {
        return (number, 0.0);
    }
    if number.is_subnormal() {
        let (mantissa, exponent) = frexp(number * (1_u64 << FRACTION_BITS) as f64);
        return (mantissa, exponent - f64::from(FRACTION_BITS));
    }
    decode_bits(number)
}

/// Returns fraction and exponent from the stored bits. The result is wrong for subnormal numbers.
fn decode_bits(number: f64) -> (f64, f64) {
    let bits = number.to_bits();
    let exponent = (bits >> FRACTION_BITS) & EXPONENT_MASK;
    let others = bits & !(EXPONENT_MASK << FRACTION_BITS);
    let mantissa = f64::from_bits(others | (EXPONENT_OF_HALF << FRACTION_BITS));
    (mantissa, exponent as f64 - EXPONENT_OF_HALF as f64)
}

/// Returns the natural logarithm. It is NaN below zero, and for subnormal numbers it has the same error as Go's.
pub(in crate::rendering::jsonnet) fn log(number: f64) -> f64 {
    if number == 0.0 {
        return f64::NEG_INFINITY;
    }
    if number < 0.0 || !number.is_finite() {
        return if number < 0.0 { f64::NAN } else { number };
    }
    let (mut fraction, mut exponent) = decode_bits(number);
    if fraction < std::f64::consts::FRAC_1_SQRT_2 {
        fraction *= 2.0;
        exponent -= 1.0;
    }
    let over_one = fraction - 1.0;
    let ratio = over_one / (2.0 + over_one);
    let square = ratio * ratio;
    let fourth = square * square;
    let series = |factors: &[f64]| {
        let mut factors = factors.iter().rev();
        let last = factors.next().copied().unwrap_or_default();
        factors.fold(last, |sum, factor| factor + fourth * sum)
    };
    let rest = square * series(&LOG_ODD) + fourth * series(&LOG_EVEN);
    let half_square = 0.5 * over_one * over_one;
    exponent * LN2_HIGH - ((half_square - (ratio * (half_square + rest) + exponent * LN2_LOW)) - over_one)
}

/// Returns the logarithm to a base.
pub(in crate::rendering::jsonnet) fn log_base(base: f64, number: f64) -> f64 {
    log(number) / log(base)
}

/// Returns a number raised to a power. For a power with a fraction, the last digits may differ from Go's.
pub(in crate::rendering::jsonnet) fn pow(base: f64, power: f64) -> f64 {
    let is_plain = base.is_finite() && base != 0.0 && power.is_finite() && power.abs() < 2_f64.powi(63);
    if !is_plain || power.fract() != 0.0 {
        return base.powf(power);
    }
    let (mut square, exponent) = frexp(base);
    // The product so far, and its exponent of two.
    let (mut product, mut twos) = (1.0, 0_i64);
    let mut exponent = exponent as i64;
    let mut bits = power.abs() as u64;
    while bits != 0 {
        if exponent.abs() > EXPONENT_MAX {
            twos += exponent;
            break;
        }
        if bits & 1 == 1 {
            product *= square;
            twos += exponent;
        }
        square *= square;
        exponent *= 2;
        // From the first square on, the value is positive even for a negative base.
        if square < 0.5 {
            square += square;
            exponent -= 1;
        }
        bits >>= 1;
    }
    match power < 0.0 {
        true => scaled(1.0 / product, -twos),
        false => scaled(product, twos),
    }
}

/// Returns a number times a power of two.
fn scaled(number: f64, twos: i64) -> f64 {
    // The first step is exact; the second one rounds once if the result is subnormal.
    let half = (twos / 2).clamp(-1_000, 1_000) as i32;
    let rest = (twos - twos / 2).clamp(-1_000, 1_000) as i32;
    number * 2_f64.powi(half) * 2_f64.powi(rest)
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::approx_constant,
        reason = "these are answers of Go, whatever else they are near to"
    )]

    use super::{frexp, log, log_base, pow};

    /// Compares with the output of go-jsonnet 0.22 on amd64.
    #[test]
    fn last_digits_are_those_of_go() {
        for (number, expected) in [
            (3_f64, 1.0986122886681096_f64),
            (10_f64, 2.302585092994046_f64),
            (7_f64, 1.9459101490553132_f64),
            (0.1_f64, -2.3025850929940455_f64),
            (1e-300_f64, -690.7755278982137_f64),
            (5e-324_f64, -709.0895657128241_f64),
            (1.5_f64, 0.4054651081081644_f64),
            (0.7_f64, -0.35667494393873245_f64),
            (2_f64, 0.6931471805599453_f64),
            (1e+22_f64, 50.65687204586901_f64),
            (123456.789_f64, 11.723646487185881_f64),
            (1e+300_f64, 690.7755278982137_f64),
        ] {
            assert_eq!(log(number), expected, "log({number})");
        }
        for (number, expected) in [
            (3_f64, 1.584962500721156_f64),
            (10_f64, 3.3219280948873626_f64),
            (7_f64, 2.807354922057604_f64),
            (0.1_f64, -3.321928094887362_f64),
            (1e-300_f64, -996.5784284662087_f64),
            (5e-324_f64, -1023.0000000000001_f64),
            (1.5_f64, 0.5849625007211562_f64),
            (0.7_f64, -0.5145731728297583_f64),
            (2_f64, 1_f64),
            (1e+22_f64, 73.08241808752197_f64),
            (123456.789_f64, 16.913646648198387_f64),
            (1e+300_f64, 996.5784284662087_f64),
        ] {
            assert_eq!(log_base(2.0, number), expected, "log2({number})");
        }
        for (number, expected) in [
            (3_f64, 0.4771212547196623_f64),
            (10_f64, 1_f64),
            (7_f64, 0.8450980400142567_f64),
            (0.1_f64, -0.9999999999999998_f64),
            (1e-300_f64, -299.99999999999994_f64),
            (5e-324_f64, -307.95368556425274_f64),
            (1.5_f64, 0.17609125905568124_f64),
            (0.7_f64, -0.1549019599857432_f64),
            (2_f64, 0.30102999566398114_f64),
            (1e+22_f64, 22_f64),
            (123456.789_f64, 5.09151497716927_f64),
            (1e+300_f64, 299.99999999999994_f64),
        ] {
            assert_eq!(log_base(10.0, number), expected, "log10({number})");
        }
        for (base, power, expected) in [
            (1.1_f64, 10_f64, 2.593742460100002_f64),
            (10_f64, 22_f64, 1e+22_f64),
            (10_f64, 23_f64, 1e+23_f64),
            (10_f64, -5_f64, 1e-05_f64),
            (1.0001_f64, -1000_f64, 0.9048419419327981_f64),
            (-1.5_f64, 7_f64, -17.0859375_f64),
            (-1.5_f64, 8_f64, 25.62890625_f64),
            (2_f64, -1074_f64, 5e-324_f64),
            (3_f64, 600_f64, 1.873927703884794e+286_f64),
            (0.1_f64, 20_f64, 1.0000000000000022e-20_f64),
            (7_f64, 2_f64, 49_f64),
            (10000000000_f64, -20_f64, 1e-200_f64),
            (1.1_f64, 0_f64, 1_f64),
        ] {
            assert_eq!(pow(base, power), expected, "{base}^{power}");
        }
    }

    #[test]
    fn a_number_is_split_exactly() {
        for (number, mantissa, exponent) in [
            (42.0, 0.656_25, 6.0),
            (-42.0, -0.656_25, 6.0),
            (0.42, 0.84, -1.0),
            (1.0, 0.5, 1.0),
            (0.0, 0.0, 0.0),
            (5e-324, 0.5, -1073.0),
            (f64::MAX, 1.0 - f64::EPSILON / 2.0, 1024.0),
        ] {
            assert_eq!(frexp(number), (mantissa, exponent), "{number}");
        }
    }

    proptest::proptest! {
        #[test]
        fn the_parts_make_the_number(number in proptest::num::f64::NORMAL) {
            let (mantissa, exponent) = frexp(number);
            let half = 2_f64.powi((exponent / 2.0) as i32);
            let rest = 2_f64.powi(exponent as i32 - (exponent / 2.0) as i32);
            proptest::prop_assert_eq!(mantissa * half * rest, number);
        }
    }
}
