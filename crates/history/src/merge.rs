//! [`merge`]: combines two changes of the same text.

use std::ops::Range;

use similar::{DiffOp, DiffTag, MergeRegion, MergeResolution, TextDiff, TextMerge};

/// A merge compares lines in quadratic time.
const MAX_LINES: usize = 2_000;

/// Merges two changes of the same text. Returns `None` if they are of the same or neighboring lines, if one can be of
/// other lines that the other one changed, or if there are more than 2,000 lines.
///
/// ```
/// use memory_tool_history::merge;
///
/// let both = merge("a\nb\nc\n", "a\nb\nC\n", "A\nb\nc\n");
/// assert_eq!(both.as_deref(), Some("A\nb\nC\n"));
/// assert_eq!(merge("a\nb\n", "1\nb\n", "2\nb\n"), None);
/// ```
pub fn merge(before: &str, theirs: &str, mine: &str) -> Option<String> {
    if is_too_long([before, theirs, mine]) {
        return None;
    }
    let merge = TextMerge::from_lines(before, mine, theirs);
    let is_merged = !merge.is_conflicted() && !is_ambiguous(before, theirs, mine);
    is_merged.then(|| merge.to_string())
}

/// Merges two changes for a person who corrects the result. It has only the lines of `mine` if both changed the same
/// ones. For longer texts than [`merge`] takes, it is `mine`.
pub fn merge_preferring_mine(before: &str, theirs: &str, mine: &str) -> String {
    if is_too_long([before, theirs, mine]) {
        return mine.to_owned();
    }
    let merge = TextMerge::from_lines(before, mine, theirs);
    let of_region = |region: &MergeRegion| -> String {
        match region.resolution() {
            MergeResolution::Theirs => region.theirs_range().filter_map(|line| merge.theirs_line(line)).collect(),
            _ => region.ours_range().filter_map(|line| merge.ours_line(line)).collect(),
        }
    };
    merge.regions().iter().map(of_region).collect()
}

fn is_too_long(texts: [&str; 3]) -> bool {
    texts.iter().any(|text| text.lines().count() > MAX_LINES)
}

/// Whether a change can have been made at lines that the other one changed. If entries of a file begin with equal
/// lines, an added entry can also be the end of an entry with the beginning of the next. A merge that takes the wrong
/// difference gives the change of an entry to another entry.
fn is_ambiguous(before: &str, theirs: &str, mine: &str) -> bool {
    let [theirs, mine] = [theirs, mine].map(|after| TextDiff::from_lines(before, after));
    let changes = |diff: &TextDiff<'_, '_, str>| -> Vec<_> {
        let ops = diff.ops().iter().filter(|op| op.tag() != DiffTag::Equal);
        ops.map(|op| (op.old_range(), places(diff, op))).collect()
    };
    let (theirs, mine) = (changes(&theirs), changes(&mine));
    let overlap = |one: &Range<usize>, other: &Range<usize>| one.start < other.end && other.start < one.end;
    theirs.iter().any(|(at, places)| mine.iter().any(|(other, others)| at != other && overlap(places, others)))
}

/// The lines from the first place to the last at which a change has the same effect.
fn places<'a>(diff: &'a TextDiff<'_, '_, str>, op: &DiffOp) -> Range<usize> {
    let lines = op.old_range();
    let (block, line): (_, &dyn Fn(usize) -> Option<&'a str>) = match op.tag() {
        DiffTag::Insert => (op.new_range(), &|number| diff.new_slice(number)),
        DiffTag::Delete => (lines.clone(), &|number| diff.old_slice(number)),
        DiffTag::Equal | DiffTag::Replace => return lines,
    };
    let before = (1..=lines.start.min(block.start)).take_while(|by| line(block.start - by) == line(block.end - by));
    let after = (0..).take_while(|by| line(block.end + by).is_some() && line(block.start + by) == line(block.end + by));
    lines.start - before.count()..lines.end + after.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(active: &str, name: &str) -> String {
        format!("## Person\n- active: {active}\n- team: blue\n- name: {name}\n\n")
    }

    #[test]
    fn no_entry_gets_the_change_of_another_one() {
        let [ann, changed, bob, cy] =
            [("yes", "Ann"), ("no", "Ann"), ("yes", "Bob"), ("yes", "Cy")].map(|(active, name)| person(active, name));
        let text = |entries: &[&str]| format!("# People\n\n{}", entries.concat());
        let before = text(&[&ann, &bob]);
        for (one, other) in [
            (text(&[&cy, &ann, &bob]), text(&[&changed, &bob])),
            (text(&[&bob]), text(&[&changed, &bob])),
            (text(&[&ann, &cy, &bob]), text(&[&ann, &bob.replace("yes", "no")])),
        ] {
            assert_eq!(merge(&before, &one, &other), None, "{one}");
            assert_eq!(merge(&before, &other, &one), None, "{one}");
        }
        let (one, other) = (text(&[&ann, &bob, &cy]), text(&[&changed, &bob]));
        let both = text(&[&changed, &bob, &cy]);
        assert_eq!(merge(&before, &one, &other), Some(both.clone()));
        assert_eq!(merge(&before, &other, &one), Some(both));
    }

    #[test]
    fn a_draft_has_all_changes_and_my_lines_of_a_conflict() {
        let before = "1\n2\n3\n4\n5\n6\n7\n";
        let (theirs, mine) = ("1\ntwo!\n3\n4\n5\nsix\n7\n8\n", "one\ntwo\n3\n4\n5\n6\n7\n");
        assert_eq!(merge(before, theirs, mine), None);
        assert_eq!(merge_preferring_mine(before, theirs, mine), "one\ntwo\n3\n4\n5\nsix\n7\n8\n");
    }

    #[test]
    fn equal_changes_and_changes_of_other_lines_are_merged() {
        let before = "a\n\nb\n\nc\n\n";
        let merged = |theirs: &str, mine: &str| merge(before, theirs, mine);
        assert_eq!(merged("a\n\nb\n\nc\n\nd\n\n", "a\n\nb\n\nC\n\n").as_deref(), Some("a\n\nb\n\nC\n\nd\n\n"));
        assert_eq!(merged("a\n\nb\n\nB\n\nc\n\n", "a\n\nb\n\nB\n\nc\n\n").as_deref(), Some("a\n\nb\n\nB\n\nc\n\n"));
        assert_eq!(merged("b\n\nc\n\n", "a\n\nb\n\nC\n\n").as_deref(), Some("b\n\nC\n\n"));
    }
}
