// Opens more tabs than a browser has connections, signs in with TLS, and restarts the server in the middle of an edit.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import process from 'node:process';
import { createInterface } from 'node:readline/promises';

const [packages, plain, tls, token, chromium] = process.argv.slice(2);
const { chromium: browsers } = createRequire(`${packages}/`)('playwright-core');
const browser = await browsers.launch({ executablePath: chromium, args: ['--no-sandbox'] });
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const MEMORIES = ['m1', 'm2', 'm3', 'm4', 'm5', 'm6', 'm7', 'm8'];

/** The server restarts before the promise is fulfilled. */
async function restart() {
  console.log('restart');
  await lines.next();
}

async function signIn(base) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  await page.goto(base);
  await page.fill('#token', token);
  await page.click('button.main');
  await page.waitForURL(`${base}/`);
  return page;
}

async function open(page, address) {
  const tab = await page.context().newPage();
  tab.setDefaultTimeout(20_000);
  await tab.goto(address);
  return tab;
}

async function create(page, base, name) {
  await page.goto(`${base}/memory/m1/new`);
  await page.fill('#name', name);
  await page.click('text=Save');
  await page.waitForSelector('text=Created.');
}

for (const base of [plain, tls]) {
  // All tabs of one memory follow its changes.
  const page = await signIn(base);
  const same = [];
  for (const _ of MEMORIES) same.push(await open(page, `${base}/memory/m1`));
  const name = `${base === tls ? 'tls' : 'plain'}.md`;
  await create(page, base, name);
  for (const tab of same) await tab.waitForSelector(`text=${name}`);
  // Another tab takes over the stream of a tab that ends.
  await same.shift().close();
  await create(page, base, `again-${name}`);
  for (const tab of same) await tab.waitForSelector(`text=again-${name}`);
  // Tabs of many memories leave a connection for pages.
  for (const memory of MEMORIES) await open(page, `${base}/memory/${memory}`);
  await page.goto(`${base}/`);
  const protocol = await page.evaluate('performance.getEntriesByType("navigation")[0].nextHopProtocol');
  assert.equal(protocol, base === tls ? 'h2' : 'http/1.1');
  console.error(`${base}: ${page.context().pages().length} tabs`);
  await page.context().close();
}

const page = await signIn(plain);
const file = `${plain}/memory/m1?path=/memories/a`;
const edit = async (text) => {
  await page.goto(file);
  await page.click('text=Edit');
  await page.fill('#text', text);
};
const isSaved = async (text) => {
  await page.waitForSelector('text=Saved.');
  assert.ok((await page.textContent('main')).includes(text));
};
// The page of a refusal has the text. On the way back, it is not put beside the present state of the file, where it would
// replace what others saved in the meantime.
await edit('x'.repeat(100_000));
await page.click('text=Save');
await page.waitForSelector('text=Send it again');
assert.equal(await page.inputValue('#text'), 'x'.repeat(100_000));
const colleague = await signIn(plain);
await colleague.goto(`${file.replace('?', '/edit?')}`);
await colleague.fill('#text', 'by a colleague');
await colleague.click('text=Save');
await colleague.waitForSelector('text=Saved.');
await page.goBack();
assert.notEqual(await page.inputValue('#text'), 'x'.repeat(100_000));
// The server keeps four refused forms at a time. Another one is not read, and stays in its tab.
const { hostname, port } = new URL(plain);
const slow = Array.from({ length: 4 }, () => connect(port, hostname));
const head = `POST /memory/m1/edit HTTP/1.1\r\nhost: ${hostname}:${port}\r\ncontent-length: 200000\r\n`;
for (const socket of slow) socket.write(`${head}content-type: application/x-www-form-urlencoded\r\n\r\ntext=`);
await edit('y'.repeat(100_000));
await page.click('text=Save');
await page.waitForSelector('text=The form did not arrive');
assert.equal(await page.inputValue('#text'), 'y'.repeat(100_000));
for (const socket of slow) socket.destroy();
await page.fill('#text', 'sent again');
await page.click('text=Send it again');
await isSaved('sent again');

await edit('before the restart');
await restart();
await page.click('text=Save');
await isSaved('before the restart');

// A stream continues after a restart, with the change that others made before.
await restart();
const other = await signIn(plain);
await other.goto(`${file.replace('?', '/edit?')}`);
await other.fill('#text', 'by another');
await other.click('text=Save');
await page.waitForSelector('text=by another', { timeout: 60_000 });

// After an upgrade, an open page gets the script and style of its new content.
await page.goto(file);
await page.evaluate(() => (window.isOld = true));
await page.route(/memory\/m1\?path/, async (route) => {
  const response = await route.fetch();
  await route.fulfill({ response, body: (await response.text()).replace(/page\.js\?\w+/, 'page.js?old') });
}, { times: 1 });
await other.goto(`${file.replace('?', '/edit?')}`);
await other.fill('#text', 'after an upgrade');
await other.click('text=Save');
await page.waitForFunction(() => !window.isOld);
await page.waitForSelector('text=after an upgrade');

// The session ends in the middle of an edit: the text is back after the sign-in.
await edit('line one\n"two" & <three>\n');
await page.context().clearCookies();
await page.click('text=Save');
await page.waitForSelector('text=You were signed out before this was saved.');
await page.fill('#token', token);
await page.click('button.main');
await page.waitForSelector('text=it is not saved yet');
assert.equal(await page.inputValue('#text'), 'line one\n"two" & <three>\n');
await page.click('button.main:has-text("Save")');
await isSaved('<three>');
console.log('passed');
process.exit(); // ends the browser too
