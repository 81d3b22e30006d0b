#!/usr/bin/env bash
# Chromium 156 mixes two versions of a form on the way back to it. The page has `cache-control: no-store`, a text area,
# and the version that the text is based on in a hidden field, which is the usual protection against lost updates. After
# a refused submission, the way back loads the page again. The text area then has the text that was typed over the old
# version, and the hidden field has the new version. The next submission passes the check, and replaces the new text.
# `autocomplete="off"` at the form prevents it: both fields are of the new version.
#
# Guess: a page that no cache may keep comes back as the server sent it; or both fields come back as they were.
# Behavior: the typed text is restored, the hidden field is not.
# Fails if this changes. Needs Node.js with npm, and Chromium (the package of Debian 12).
set -euo pipefail
chromium --version | grep -q '^Chromium 156\.' || { echo "another version of Chromium" && exit 1; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund playwright-core@1.59.1
cat >run.mjs <<'JS'
import { createServer } from 'node:http';
import { chromium } from 'playwright-core';

let version = 1;
const server = createServer((request, response) => {
  response.setHeader('cache-control', 'no-store');
  response.setHeader('content-type', 'text/html');
  if (request.method === 'POST') {
    version += 1; // another person saves in the meantime
    response.statusCode = 503;
    return response.end('<p>busy</p>');
  }
  const off = request.url.includes('off') ? 'autocomplete="off"' : '';
  response.end(`<form method="post" action="/save" ${off}><input type="hidden" name="base" value="${version}">
<textarea name="text">text of version ${version}</textarea><button>Save</button></form>`);
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const base = `http://127.0.0.1:${server.address().port}`;
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
const page = await browser.newPage();
for (const address of ['/', '/?off']) {
  version = 1;
  await page.goto(base + address);
  await page.fill('textarea', 'typed over version 1');
  await page.click('button');
  await page.waitForSelector('text=busy');
  await page.goBack();
  console.log(`${address} base ${await page.inputValue('[name=base]')}, text "${await page.inputValue('textarea')}"`);
}
await browser.close();
server.close();
JS
found=$(node run.mjs)
echo "$found"
[ "$found" = '/ base 2, text "typed over version 1"
/?off base 2, text "text of version 2"' ]
# Seen on 2026-11-28:
# / base 2, text "typed over version 1"
# /?off base 2, text "text of version 2"
