//! Check digits of card and account numbers. The arguments contain only digits, or letters and digits.

/// The Luhn formula, for payment cards.
pub(super) fn luhn(digits: &str) -> bool {
    let sum: u32 = digits
        .bytes()
        .rev()
        .map(|byte| u32::from(byte.wrapping_sub(b'0')))
        .enumerate()
        .map(|(place, digit)| match (place % 2, digit * 2) {
            (0, _) => digit,
            (_, doubled) if doubled > 9 => doubled - 9,
            (_, doubled) => doubled,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// ISO 7064 MOD 97-10, for an IBAN. The first four characters are moved to the end.
pub(super) fn iban(characters: &str) -> bool {
    let Some((head, tail)) = characters.split_at_checked(4) else { return false };
    let remainder =
        tail.chars().chain(head.chars()).filter_map(|character| character.to_digit(36)).fold(0, |remainder, value| {
            if value < 10 { (remainder * 10 + value) % 97 } else { (remainder * 100 + value) % 97 }
        });
    remainder == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the check accepts the number and rejects every number that differs from it in one digit.
    fn detects_errors(check: fn(&str) -> bool, number: &str) -> bool {
        let others = number.char_indices().filter(|(_, digit)| digit.is_ascii_digit()).flat_map(|(index, digit)| {
            ('0'..='9').filter(move |&other| other != digit).map(move |other| {
                let mut changed = number.to_owned();
                changed.replace_range(index..=index, &other.to_string());
                changed
            })
        });
        check(number) && !others.into_iter().any(|other| check(&other))
    }

    #[test]
    fn each_check_accepts_a_published_number_and_rejects_changed_digits() {
        assert!(detects_errors(luhn, "79927398713"));
        assert!(detects_errors(iban, "GB82WEST12345698765432"));
    }

    #[test]
    fn short_and_malformed_numbers_are_rejected() {
        for text in ["", "1", "äöü", "????????????????"] {
            assert!(!iban(text), "{text}");
        }
    }
}
