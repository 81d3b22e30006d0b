//! [`to_html`]: Markdown of a memory as HTML that neither acts nor loads anything.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use askama::filters::{Html, escape};
use memory_tool::proposals::linked_path;
use memory_tool::store::StorePath;
use pulldown_cmark::{
    CodeBlockKind, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd, TextMergeStream, html,
};

use super::encode;
use super::text::visible;

/// The file that contains the Markdown, from which relative links start.
pub(super) struct Place {
    /// The page of the memory.
    pub(super) home: String,
    pub(super) path: StorePath,
}

impl Place {
    /// The address of the file that a link inside the memory names.
    fn file(&self, link: &str, is_wiki: bool) -> Option<String> {
        let path = linked_path(&self.path, link, is_wiki)?;
        Some(format!("{}?path={}", self.home, encode(path.as_str())))
    }
}

/// Renders Markdown. HTML stays text, an image becomes its description, and links work only for mail, for files of the
/// memory, and for web pages of other hosts: all ports of a host get the cookie of the page.
pub(super) fn to_html(markdown: &str, place: &Place, is_own: impl Fn(&str) -> bool) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS | Options::ENABLE_WIKILINKS;
    let mut links = Vec::new();
    let mut is_code = false;
    let events = TextMergeStream::new(Parser::new_ext(markdown, options)).map(|event| match event {
        Event::Html(html) | Event::InlineHtml(html) => Event::Text(visible(&html).into()),
        Event::Text(text) if links.is_empty() && !is_code => Event::Html(with_links(&visible(&text), &is_own).into()),
        Event::Text(text) => Event::Text(visible(&text).into()),
        Event::Code(code) => Event::Code(visible(&code).into()),
        Event::TaskListMarker(is_done) => Event::Text(if is_done { "☑ " } else { "☐ " }.into()),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::Start(Tag::Image { .. }) => Event::Text("[image: ".into()),
        Event::End(TagEnd::Image) => Event::Text("]".into()),
        Event::Start(Tag::Link { dest_url, link_type, .. }) => {
            let is_wiki = matches!(link_type, LinkType::WikiLink { .. });
            let start = match place.file(&dest_url, is_wiki) {
                _ if is_followed(&dest_url, &is_own) => Some(start_of_link(&dest_url)),
                file => file.map(|address| format!("<a href=\"{}\">", escaped(&address))),
            };
            links.push(start.is_some());
            start.map_or(Event::Text("".into()), |start| Event::Html(start.into()))
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
        Event::Start(Tag::CodeBlock(_)) => {
            is_code = true;
            Event::Start(Tag::CodeBlock(CodeBlockKind::Indented))
        }
        Event::End(TagEnd::CodeBlock) => {
            is_code = false;
            Event::End(TagEnd::CodeBlock)
        }
        other => other,
    });
    let mut html = String::new();
    html::push_html(&mut html, events);
    html
}

fn start_of_link(address: &str) -> String {
    format!("<a rel=\"noopener noreferrer\" href=\"{}\">", escaped(address))
}

/// Text as HTML, with links for the addresses of web pages in it.
fn with_links(text: &str, is_own: impl Fn(&str) -> bool) -> String {
    let mut html = String::new();
    for part in text.split_inclusive(char::is_whitespace) {
        let word = part.trim_start_matches(['(', '"', '\'']).trim_end();
        let address = word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', '"', '\'']);
        if address.contains("://") && is_followed(address, &is_own) {
            let (before, after) = part.split_once(address).unwrap_or_default();
            html += &[&escaped(before), &start_of_link(address), &escaped(address), "</a>", &escaped(after)].concat();
        } else {
            html += &escaped(part);
        }
    }
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
        let place = super::Place { home: "/memory/m".to_owned(), path: "/memories/a/b.md".parse().unwrap() };
        super::to_html(markdown, &place, |host| host == "memory.example" || host == "[2001:db8::1]")
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
    fn links_lead_to_files_of_the_memory() {
        for (text, path) in [
            ("[x](c.md)", "/memories/a/c.md"),
            ("[x](./c/d.md#part)", "/memories/a/c/d.md"),
            ("[x](../e%20f.md)", "/memories/e%20f.md"),
            ("[x](/memories/g)", "/memories/g"),
            ("[[notes]]", "/memories/a/notes.md"),
            ("[[c/d.txt|x]]", "/memories/a/c/d.txt"),
        ] {
            assert!(to_html(text).contains(&format!("<a href=\"/memory/m?path={path}\">")), "{}", to_html(text));
        }
        for text in
            ["[x](../../etc)", "[x](/sign-out)", "[x](//e)", "[x](a:b)", "[x](%2e%2e/%2e%2e/x)", "[x](#y)", "[x]()"]
        {
            assert!(!to_html(text).contains("<a "), "{}", to_html(text));
        }
    }

    #[test]
    fn tasks_and_addresses_in_text_are_shown() {
        assert_eq!(to_html("- [x] a\n- [ ] b\n").matches(['☑', '☐']).collect::<String>(), "☑☐");
        let link =
            "<a rel=\"noopener noreferrer\" href=\"https://a.example/b_c?d&#38;e\">https://a.example/b_c?d&#38;e</a>";
        assert_eq!(to_html("See (https://a.example/b_c?d&e)."), format!("<p>See ({link}).</p>\n"));
        for text in
            ["`https://a.example`", "    https://a.example", "https://memory.example/", "javascript://x", "a://b"]
        {
            assert!(!to_html(text).contains("<a "), "{}", to_html(text));
        }
        assert_eq!(to_html("[https://a.example](https://b.example)").matches("<a ").count(), 1);
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
