// Uses every part of the page in a real browser: with script and without, in light and dark, and on a narrow screen.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [packages, base, token, chromium] = process.argv.slice(2);
const require = createRequire(`${packages}/`);
const { chromium: browsers } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const browser = await browsers.launch({ executablePath: chromium, args: ['--no-sandbox'] });

/** A page whose messages and requests are checked. */
async function open(options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  // A browser reports each refusal by the server. Other messages are faults of the page.
  const isRefusal = (message) => /responded with a status of (400|403|404|409)/.test(message.text());
  page.on('console', (message) => isRefusal(message) || assert.fail(`${page.url()}: ${message.text()}`));
  page.on('pageerror', (error) => assert.fail(`${page.url()}: ${error.message}`));
  page.on('dialog', (dialog) => assert.fail(`${page.url()}: ${dialog.message()}`));
  page.on('request', (request) => assert.ok(request.url().startsWith(`${base}/`), request.url()));
  await page.goto(base);
  await page.fill('#token', token);
  await page.click('button.main');
  await page.waitForURL(`${base}/`);
  return page;
}

const has = async (page, text) => assert.ok((await page.textContent('body')).includes(text), `${page.url()}: ${text}`);
const file = (name) => `${base}/memory/alice?path=/memories/${name}`;

/** Each action, by its links and forms. */
async function act(page, name) {
  await page.click('text=alice');
  await page.click('text=New file');
  await page.fill('#name', `${name}.md`);
  await page.fill('#text', '# Tea\n\nGreen tea.');
  await page.click('text=Save');
  await has(page, 'Created.');
  await has(page, 'Green tea.');
  await page.click('text=With line numbers');
  await page.click('#L3 a');
  assert.ok(page.url().endsWith('#L3'), page.url());
  await page.click('text=Formatted');

  // Somebody else saves first.
  await page.click('text=Edit');
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.fill('#text', 'Black tea.');
  await other.click('text=Save');
  await other.goto(`${base}/tokens`); // Chromium does not close a page with an open stream
  await page.fill('#text', 'White tea.');
  await page.click('text=Save');
  await has(page, 'your text is not saved yet');
  await has(page, 'What the others changed');
  await has(page, 'Black');
  assert.equal(await page.inputValue('#text'), 'White tea.');
  await page.click('text=Replace the present text with mine');
  await has(page, 'Saved.');
  await has(page, 'White tea.');

  await page.fill('[type=search]', 'white');
  await page.click('button:has-text("Search")');
  await page.click('text=Line 1');
  assert.ok(page.url().endsWith('#L1'), page.url());
  await page.click('text=Rename');
  await page.fill('#name', `${name}-2.md`);
  await page.click('button:has-text("Rename")');
  await has(page, 'Renamed or moved.');
  await has(page, `${name}-2.md`);
  await page.click('main >> text=Delete');
  await page.click('button:has-text("Delete")');
  await has(page, 'Deleted.');
  await page.click('button:has-text("Take back")');
  await has(page, 'Taken back:');
  await page.goto(file(`${name}-2.md`));
  await page.click('main >> text=History');
  await page.click('.changes li:has-text("created") a');
  await page.click('text=Erase from the history');
  await page.click('text=Erase the ticked changes');
  await has(page, 'Erased from the history.');
  await page.click('nav >> text=History');
  await page.fill('#since', '2020-01-01');
  await page.click('text=Show the changes');
  await has(page, 'erased #');
  await page.click('text=Limits and checks');
  await page.click('text=Check for damage');
  await has(page, '0 problems');
  await page.click('text=Delete the memory');
  await page.fill('#name', 'not alice');
  await page.click('text=Delete everything');
  await has(page, 'Nothing was deleted');

  await page.goto(`${base}/tokens`);
  await page.fill('#actor', name);
  await page.fill('#memory', 'alice');
  await page.check('[name=read]');
  await page.click('button:has-text("Create")');
  await has(page, 'not shown again');
  await page.click(`tr:has-text("${name}") >> text=Revoke`);
  await page.click('button:has-text("Revoke")');
  await has(page, 'Revoked.');
  assert.equal(await page.locator(`tr:has-text("${name}")`).count(), 0);
  await page.goto(`${base}/memory/nobody`);
  await has(page, 'This is not possible');
}

const LONGEST = `/memories${`/${'\u05d0'.repeat(120)}`.repeat(4)}/${'\u05d0'.repeat(25)}`;

const PAGES = [
  `/memory/alice?path=${encodeURIComponent(LONGEST)}`,
  `/memory/alice/rename?path=${encodeURIComponent(LONGEST)}`,
  '/',
  '/memory/alice',
  '/memory/alice?path=/memories/markdown.md',
  '/memory/alice?path=/memories/markdown.md&view=source',
  '/memory/alice?path=/memories/picture.png',
  '/memory/alice/search?q=tea',
  '/memory/alice/new',
  '/memory/alice/edit?path=/memories/markdown.md',
  '/memory/alice/rename?path=/memories/markdown.md',
  '/memory/alice/delete?path=/memories/markdown.md',
  '/memory/alice/log',
  '/memory/alice/change/2',
  '/memory/alice/redact?entry=2',
  '/memory/alice/limits',
  '/memory/alice/forget',
  '/memory/alice/log?since=2020-01-01',
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

await act(await open({}), 'with-script');
await act(await open({ javaScriptEnabled: false }), 'without-script');

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
for (const path of ['/memory/alice?path=/memories/attacks.md', '/memory/alice/log', '/memory/alice']) {
  await page.goto(base + path);
  await page.waitForLoadState('load');
}

// 10,000 files, and a file of 5 MB.
for (const path of ['/memory/large', '/memory/large?path=/memories/5-mb.txt', '/memory/large/log']) {
  await page.goto(base + path);
  const timing = await page.evaluate('performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd');
  console.error(`${path}: ${Math.round(timing)} ms`);
}

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
