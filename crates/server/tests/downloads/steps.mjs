// Steps of people on the page. `.ci/world` also takes them behind proxies.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

export function launch(packages, chromium, ...args) {
  const { chromium: browsers } = createRequire(`${packages}/`)('playwright-core');
  return browsers.launch({ executablePath: chromium, args: ['--no-sandbox', ...args] });
}

/** A page after the sign-in, in a context of its own. */
export async function signIn(browser, base, token, options = {}, prepare = () => {}) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  prepare(page);
  await page.goto(base);
  await page.fill('#token', token);
  await page.click('button.main');
  await page.waitForURL(`${base}/`);
  return page;
}

export const has = async (page, text) => assert.ok((await page.textContent('body')).includes(text), `${page.url()}: ${text}`);

/** Each action, by its links and forms. */
export async function act(page, base, name) {
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
  await has(page, 'Taken back.');
  await page.goto(`${base}/memory/alice?path=/memories/${name}-2.md`);
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

/** Opens more tabs than a browser has connections, of the memories `m1` to `m8`. Returns the protocol. */
export async function follow(page, base, name) {
  const open = async (address) => {
    const tab = await page.context().newPage();
    tab.setDefaultTimeout(60_000);
    await tab.goto(address);
    return tab;
  };
  const create = async (file) => {
    await page.goto(`${base}/memory/m1/new`);
    await page.fill('#name', file);
    await page.click('text=Save');
    await page.waitForSelector('text=Created.');
  };
  const memories = [1, 2, 3, 4, 5, 6, 7, 8].map((number) => `${base}/memory/m${number}`);
  // All tabs of one memory follow its changes.
  const same = [];
  for (const _ of memories) same.push(await open(memories[0]));
  await create(`${name}.md`);
  for (const tab of same) await tab.waitForSelector(`text=${name}.md`);
  // Another tab takes over the stream of a tab that ends.
  await same.shift().close();
  await create(`again-${name}.md`);
  for (const tab of same) await tab.waitForSelector(`text=again-${name}.md`);
  // Tabs of many memories leave a connection for pages.
  for (const memory of memories) await open(memory);
  await page.goto(`${base}/`);
  console.error(`${base}: ${page.context().pages().length} tabs`);
  return page.evaluate('performance.getEntriesByType("navigation")[0].nextHopProtocol');
}
