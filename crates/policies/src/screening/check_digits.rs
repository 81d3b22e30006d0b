//! Check digits of card, account and identity numbers. The arguments contain only digits, or letters and digits.

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

/// ISO 7064 MOD 11, 10, for a German tax id. Exactly one digit must occur two or three times in the first ten digits.
pub(super) fn german_tax_id(digits: &str) -> bool {
    let digits: Vec<u32> = digits.chars().filter_map(|digit| digit.to_digit(10)).collect();
    let [first, .., check] = digits[..] else { return false };
    let body = &digits[..digits.len() - 1];
    let repeated: Vec<usize> =
        (0..10).map(|digit| body.iter().filter(|&&other| other == digit).count()).filter(|&count| count > 1).collect();
    let product = body.iter().fold(10, |product, digit| {
        let sum = (digit + product) % 10;
        if sum == 0 { 9 } else { sum * 2 % 11 } // ten doubled, modulo 11, is nine
    });
    first != 0 && matches!(repeated[..], [2 | 3]) && (11 - product) % 10 == check
}

/// The check letter of a Spanish DNI or NIE. The first letter of a NIE represents a digit.
pub(super) fn spanish_national_id(characters: &str) -> bool {
    const LETTERS: &[u8] = b"TRWAGMYFPDXBNJZSQVHLCKE";
    let Some((number, letter)) = characters.split_at_checked(8) else { return false };
    let number = number.replace('X', "0").replace('Y', "1").replace('Z', "2");
    let Ok(number) = number.parse::<usize>() else { return false };
    letter.as_bytes() == [LETTERS[number % LETTERS.len()]]
}

/// The key of a French social security number: 97 minus the number modulo 97. The Corsican departments `2A` and `2B`
/// count as 19 and 18.
pub(super) fn french_social_security_number(characters: &str) -> bool {
    let Some((number, key)) = characters.split_at_checked(13) else { return false };
    let number = number.replace("2A", "19").replace("2B", "18");
    match (number.parse::<u64>(), key.parse::<u64>()) {
        (Ok(number), Ok(key)) => 97 - number % 97 == key,
        _ => false,
    }
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
        assert!(detects_errors(german_tax_id, "86095742719"));
        assert!(detects_errors(spanish_national_id, "12345678Z"));
        assert!(detects_errors(spanish_national_id, "X1234567L"));
        assert!(detects_errors(french_social_security_number, "255081416802538"));
    }

    #[test]
    fn each_check_rejects_short_and_malformed_numbers() {
        for check in [iban, german_tax_id, spanish_national_id, french_social_security_number] {
            for text in ["", "1", "äöü", "????????????????"] {
                assert!(!check(text), "{text}");
            }
        }
    }
}
