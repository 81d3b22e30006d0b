//! [`to_html`]: Markdown of a memory as HTML that neither acts nor loads anything.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use askama::filters::{Html, escape};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use super::text::visible;

/// Renders Markdown. HTML stays text, an image becomes its description, and links work only for mail and for web pages
/// of other hosts: all ports of a host get the cookie of the page.
pub(super) fn to_html(markdown: &str, is_own: impl Fn(&str) -> bool) -> String {
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
            let is_link = is_followed(&dest_url, &is_own);
            links.push(is_link);
            match is_link {
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

fn is_followed(link: &str, is_own: impl Fn(&str) -> bool) -> bool {
    let scheme = ["http://", "https://"].into_iter().find(|scheme| starts_with(link, scheme));
    let Some(rest) = scheme.and_then(|scheme| link.get(scheme.len()..)) else { return starts_with(link, "mailto:") };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    host(authority).is_some_and(|host| !is_of_this_machine(&host) && !is_own(&host))
}

/// The host of an authority, in lower case. Other spellings that browsers accept are refused, such as numbers and
/// letters of other alphabets.
pub(super) fn host(authority: &str) -> Option<String> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (authority, ""),
    };
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    let host = host.to_ascii_lowercase();
    if let Some(address) = host.strip_prefix('[') {
        let address: Ipv6Addr = address.strip_suffix(']')?.parse().ok()?;
        return is_port.then(|| format!("[{address}]"));
    }
    let host = host.strip_suffix('.').unwrap_or(&host);
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_plain = last.starts_with(|first: char| first.is_ascii_lowercase()) || host.parse::<Ipv4Addr>().is_ok();
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    (is_port && is_plain && host.bytes().all(is_letter)).then(|| host.to_owned())
}

fn is_of_this_machine(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>().map(|address| address.to_canonical());
    let is_local = |address: IpAddr| address.is_loopback() || address.is_unspecified();
    host == "localhost" || host.ends_with(".localhost") || address.is_ok_and(is_local)
}

fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|given| given.eq_ignore_ascii_case(start))
}

fn escaped(text: &str) -> String {
    escape(text, Html).map(|escaped| escaped.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {

    fn to_html(markdown: &str) -> String {
        super::to_html(markdown, |host| host == "memory.example" || host == "[2001:db8::1]")
    }

    /// A link to another port would get the cookie of the page.
    #[test]
    fn links_to_this_machine_and_the_own_host_are_text() {
        for link in [
            "http://memory.example:4444/",
            "https://MEMORY.example",
            "http://memory.example./",
            "http://memory%2eexample/",
            "http://[2001:DB8:0::1]:4444/",
            "http://127.0.0.1:4444/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.0.0.1/",
            "http://0177.0.0.1/",
            "http://127.0.0.1./",
            "http://0.0.0.0:4444/",
            "http://localhost/",
            "http://a.localhost?x",
            "http://[::1]:4444/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::]/",
            "http:///127.0.0.1/",
            "http://\\127.0.0.1/",
            "http://a.example\\@127.0.0.1/",
            "http://a.example@127.0.0.1/",
            "http://%31%32%37.0.0.1/",
            "http://\u{ff11}27.0.0.1/",
            "http://\u{24db}ocalhost/",
            "http://",
        ] {
            for text in [format!("[a]({link})"), format!("<{link}>")] {
                let html = to_html(&text);
                assert!(!html.contains("<a "), "{text}: {html}");
            }
        }
        for link in
            ["http://a.example:4444/x", "https://192.0.2.1", "http://[2001:db8::2]/", "https://memory.example.org"]
        {
            assert!(to_html(&format!("[a]({link})")).contains("<a "), "{link}");
        }
    }

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
