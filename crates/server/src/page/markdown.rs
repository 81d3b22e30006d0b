//! [`to_html`]: Markdown of a memory as HTML that neither acts nor loads anything.

use askama::filters::{Html, escape};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use super::text::visible;

/// The schemes of links that can be followed.
const SCHEMES: [&str; 3] = ["http://", "https://", "mailto:"];

/// Renders Markdown. HTML stays text, an image becomes its description, and links work only for web pages and mail.
pub(super) fn to_html(markdown: &str) -> String {
    let mut links = Vec::new();
    let events = Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH);
    let events = events.map(|event| match event {
        Event::Html(html) | Event::InlineHtml(html) => Event::Text(visible(&html).into()),
        Event::Text(text) => Event::Text(visible(&text).into()),
        Event::Code(code) => Event::Code(visible(&code).into()),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::Start(Tag::Image { .. }) => Event::Text("[image: ".into()),
        Event::End(TagEnd::Image) => Event::Text("]".into()),
        Event::Start(Tag::Link { dest_url, .. }) => {
            let is_followed = SCHEMES.iter().any(|scheme| starts_with(&dest_url, scheme));
            links.push(is_followed);
            match is_followed {
                true => Event::Html(format!("<a rel=\"noopener noreferrer\" href=\"{}\">", escaped(&dest_url)).into()),
                false => Event::Text("".into()),
            }
        }
        Event::End(TagEnd::Link) => match links.pop() {
            Some(true) => Event::Html("</a>".into()),
            _ => Event::Text("".into()),
        },
        // People end lines where they want them to end.
        Event::SoftBreak => Event::HardBreak,
        // The heading of the page is above those of the text.
        Event::Start(Tag::Heading { level, .. }) => Event::Start(below(level)),
        Event::End(TagEnd::Heading(level)) => Event::End(below(level).to_end()),
        Event::Start(Tag::CodeBlock(_)) => Event::Start(Tag::CodeBlock(pulldown_cmark::CodeBlockKind::Indented)),
        other => other,
    });
    let mut html = String::new();
    html::push_html(&mut html, events);
    html
}

fn below(level: HeadingLevel) -> Tag<'static> {
    let level = HeadingLevel::try_from(level as usize + 1).unwrap_or(HeadingLevel::H6);
    Tag::Heading { level, id: None, classes: Vec::new(), attrs: Vec::new() }
}

fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|given| given.eq_ignore_ascii_case(start))
}

fn escaped(text: &str) -> String {
    escape(text, Html).map(|escaped| escaped.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_rendered() {
        assert_eq!(to_html("# A\n\n*b*\n`c`"), "<h2>A</h2>\n<p><em>b</em><br />\n<code>c</code></p>\n");
        let link = "<p><a rel=\"noopener noreferrer\" href=\"https://a.example/?b&#38;c\">d</a></p>\n";
        assert_eq!(to_html("[d](https://a.example/?b&c)"), link);
    }

    #[test]
    fn nothing_acts_or_loads() {
        for attack in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "<div>\n\n<svg onload=alert(1)>\n\n</div>",
            "[a](javascript:alert(1))",
            "[a](JaVaScRiPt:alert(1))",
            "[a](data:text/html,<script>)",
            "[a](//evil.example)",
            "[a](/sign-out)",
            "[a](https:evil)",
            "![a](https://evil.example/pixel.png)",
            "[![a](https://evil.example/p.png)](vbscript:x)",
            "<javascript:alert(1)>",
            "[a]: javascript:alert(1)\n\n[a]",
            "```\" onmouseover=\"alert(1)\nx\n```",
            "<style>*{}</style>",
            "<!-- --><iframe src=//evil.example>",
        ] {
            let html = to_html(attack);
            for (at, _) in html.match_indices('<') {
                let tag: String = html[at + 1..].chars().take_while(|letter| *letter != '>').collect();
                let is_known = ["p", "/p", "pre", "/pre", "code", "/code"].contains(&tag.as_str());
                let is_tag = ["pre><code", "/code></pre"].contains(&tag.as_str());
                assert!(is_known || is_tag, "{attack}: {html}");
            }
        }
        let link = to_html("[a](https://e.example/\"onclick=x)");
        assert!(link.contains("href=\"https://e.example/&#34;onclick=x\""), "{link}");
    }
}
