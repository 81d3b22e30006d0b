// Opens more tabs than a browser has connections, signs in with TLS, and restarts the server in the middle of an edit.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import process from 'node:process';
import { createInterface } from 'node:readline/promises';
import { follow, launch, signIn } from './steps.mjs';

const [packages, plain, tls, token, chromium] = process.argv.slice(2);
const browser = await launch(packages, chromium);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

/** The server restarts before the promise is fulfilled. */
async function restart() {
  console.log('restart');
  await lines.next();
}

for (const base of [plain, tls]) {
  const page = await signIn(browser, base, token);
  assert.equal(await follow(page, base, base === tls ? 'tls' : 'plain'), base === tls ? 'h2' : 'http/1.1');
  await page.context().close();
}

const page = await signIn(browser, plain, token);
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
const colleague = await signIn(browser, plain, token);
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
const other = await signIn(browser, plain, token);
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
