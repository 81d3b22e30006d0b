// Uses every part of the page in a real browser: with script and without, in light and dark, and on a narrow screen.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { act, has, launch, signIn } from './steps.mjs';

const [packages, base, token, chromium] = process.argv.slice(2);
const axe = readFileSync(createRequire(`${packages}/`).resolve('axe-core/axe.min.js'), 'utf8');
const browser = await launch(packages, chromium);

/** A page whose messages and requests are checked. */
function open(options) {
  return signIn(browser, base, token, options, (page) => {
    // A browser reports each refusal by the server. Other messages are faults of the page.
    const isRefusal = (message) => /responded with a status of (400|403|404|409)/.test(message.text());
    page.on('console', (message) => isRefusal(message) || assert.fail(`${page.url()}: ${message.text()}`));
    page.on('pageerror', (error) => assert.fail(`${page.url()}: ${error.message}`));
    page.on('dialog', (dialog) => assert.fail(`${page.url()}: ${dialog.message()}`));
    page.on('request', (request) => assert.ok(request.url().startsWith(`${base}/`), request.url()));
  });
}

const LONGEST = `/memories${`/${'\u05d0'.repeat(120)}`.repeat(4)}/${'\u05d0'.repeat(25)}`;

const PAGES = [
  `/memory/alice?path=${encodeURIComponent(LONGEST)}`,
  `/memory/alice/rename?path=${encodeURIComponent(LONGEST)}`,
  '/',
  '/memory/alice',
  '/memory/alice?path=/memories/markdown.md',
  '/memory/alice?path=/memories/markdown.md&view=source',
  '/memory/alice?path=/memories/markdown.md&view=blame',
  '/?name=ali',
  '/memory/alice?path=/memories/picture.png',
  '/memory/alice/search?q=tea',
  '/memory/alice/lint',
  '/memory/alice/new',
  '/memory/alice/edit?path=/memories/markdown.md',
  '/memory/alice/rename?path=/memories/markdown.md',
  '/memory/alice/delete?path=/memories/markdown.md',
  '/memory/alice/log',
  '/memory/alice/change/2',
  '/memory/alice/redact?entry=2',
  '/memory/alice/redact?path=/memories/markdown.md',
  '/search?q=tea',
  '/memory/alice/proposals',
  '/memory/alice/proposal/nightly',
  '/memory/alice/proposal/nightly/edit?path=/memories/markdown.md',
  '/memory/alice/erase',
  '/memory/alice/limits',
  '/memory/alice/forget',
  '/memory/alice/log?since=2020-01-01',
  '/memory/alice?all=1&sort=size',
  '/memory/alice/log?path=/memories/markdown.md',
  '/memory/alice/compare?path=/memories/markdown.md&from=1&to=2',
  '/memory/alice?path=/memories/nothing',
  '/tokens',
];

/** The findings of axe, which runs apart from the page, so that the policy of the page does not stop it. */
async function findings(page) {
  const client = await page.context().newCDPSession(page);
  const { frameTree } = await client.send('Page.getFrameTree');
  const world = await client.send('Page.createIsolatedWorld', { frameId: frameTree.frame.id });
  const evaluate = (expression) =>
    client.send('Runtime.evaluate', { expression, contextId: world.executionContextId, awaitPromise: true });
  await evaluate(axe);
  const found = 'found.violations.map((rule) => [rule.id, ...rule.nodes.map((node) => node.html)])';
  return (await evaluate(`axe.run().then((found) => JSON.stringify(${found}))`)).result.value;
}

await act(await open({}), base, 'with-script');
await act(await open({ javaScriptEnabled: false }), base, 'without-script');

for (const colorScheme of ['light', 'dark']) {
  const page = await open({ colorScheme });
  for (const path of PAGES) {
    await page.goto(base + path);
    assert.equal(await findings(page), '[]', `${colorScheme} ${path}`);
  }
  await page.setViewportSize({ width: 320, height: 640 });
  for (const path of PAGES) {
    await page.goto(base + path);
    assert.ok((await page.evaluate('document.documentElement.scrollWidth')) <= 320, path);
  }
  await page.click('text=Sign out');
  assert.equal(await findings(page), '[]', 'sign-in');
}

// The keyboard reaches the content first, and then each link.
const page = await open({});
const listening = page.waitForResponse((response) => response.url().endsWith('/live'));
await page.goto(`${base}/memory/alice`);
await listening;
await page.keyboard.press('Tab');
assert.equal(await page.evaluate('document.activeElement.textContent'), 'Skip to the content');
await page.keyboard.press('Enter');
await page.keyboard.press('Tab');
assert.equal(await page.evaluate('document.activeElement.textContent'), 'New file');

// A change by others appears without a reload.
const other = await open({});
await other.goto(`${base}/memory/alice/new`);
await other.fill('#name', 'appeared.md');
await other.click('text=Save');
await page.waitForSelector('text=appeared.md');
assert.equal(await page.evaluate('document.activeElement.textContent'), 'New file');

// Attack texts in a file, its name and its history neither act nor load anything.
for (const path of [
  '/memory/alice?path=/memories/attacks.md',
  '/memory/alice/log',
  '/memory/alice',
  '/memory/alice/proposal/nightly',
]) {
  await page.goto(base + path);
  await page.waitForLoadState('load');
}

// 10,000 files, and a file of 5 MB.
for (const path of ['/memory/large', '/memory/large?path=/memories/5-mb.txt', '/memory/large/log']) {
  await page.goto(base + path);
  const timing = await page.evaluate('performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd');
  console.error(`${path}: ${Math.round(timing)} ms`);
}

// Times are in the zone of the reader, keys work, and text that is not saved is not left without a question.
const reader = await open({ timezoneId: 'Asia/Kolkata' });
await reader.goto(`${base}/memory/alice/new`);
const chosen = (name, content) => ({ name, mimeType: 'text/markdown', buffer: Buffer.from(content) });
await reader.setInputFiles('#upload', chosen('picture.md', [0xff]));
await reader.waitForSelector('text=“picture.md” is no text in UTF-8.');
await reader.setInputFiles('#upload', chosen('keys.md', '# Keys'));
await reader.waitForFunction(() => document.querySelector('#text').value === '# Keys');
assert.equal(await reader.textContent('#upload + [role=alert]'), '');
assert.equal(await reader.inputValue('#name'), 'keys.md');
await reader.focus('#text');
await reader.keyboard.press('Control+s');
await reader.waitForSelector('text=Created.');
assert.match(await reader.textContent('time'), /^\d+ \w+ \d{4}, \d\d:\d\d GMT\+5:30$/);
await reader.keyboard.press('/');
assert.equal(await reader.evaluate('document.activeElement.name'), 'q');
await reader.keyboard.press('?');
assert.equal(await reader.inputValue('[name=q]'), '?');
await reader.evaluate('document.activeElement.blur()');
await reader.keyboard.press('?');
assert.ok(await reader.isVisible('#keys'));
assert.equal(await findings(reader), '[]', 'keys');
await reader.keyboard.press('Escape');
await reader.keyboard.press('e');
await reader.waitForSelector('textarea');
await reader.fill('#text', '# Unsaved');
reader.removeAllListeners('dialog');
const asked = reader.waitForEvent('dialog');
reader.goto(`${base}/`).catch(() => {});
const question = await asked;
assert.equal(question.type(), 'beforeunload');
await question.dismiss();
assert.equal(await reader.inputValue('#text'), '# Unsaved');
await reader.click('text=Save');
await reader.waitForSelector('text=Saved.');
const downloading = reader.waitForEvent('download');
await reader.click('text=Download');
assert.equal((await downloading).suggestedFilename(), 'keys.md');

// A session that ended: the visitor signs in again, and gets to the page that he asked for.
const late = await open({});
await late.context().addCookies([{ name: `memory-tool-${new URL(base).port}`, value: '0'.repeat(64), url: base, httpOnly: true, sameSite: 'Strict' }]);
await late.goto(`${base}/memory/alice/log`);
await has(late, 'You were signed out.');
await late.fill('#token', token);
await late.click('button.main');
assert.equal(late.url(), `${base}/memory/alice/log`);
await late.evaluate(() => document.querySelector('[name=form]').value = 'replayed');
await late.click('text=Sign out');
await has(late, 'The form is too old');

// No page shows this one in a frame.
const frame = await (await browser.newContext()).newPage();
const body = `<iframe src="${base}/sign-in"></iframe><iframe src="data:text/html,shown"></iframe>`;
await frame.route(`${base}/framing`, (route) => route.fulfill({ contentType: 'text/html', body }));
await frame.goto(`${base}/framing`);
await frame.waitForFunction(() => frames.length === 2);
assert.deepEqual(frame.frames().map((part) => part.url().split(':')[0]), ['http', 'chrome-error', 'data']);
console.log('passed');
process.exit(); // ends the browser too
