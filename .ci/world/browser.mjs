// The page in Chromium at https://memory.example, which is a port of this machine. Prints the outcomes as JSON.
import { act, follow, launch, signIn } from '../../crates/server/tests/downloads/steps.mjs';

const [packages, token, port] = process.argv.slice(2);
const base = 'https://memory.example';
const browser = await launch(packages, '/usr/bin/chromium', `--host-resolver-rules=MAP memory.example:443 127.0.0.1:${port}`);
const outcomes = {};
async function check(name, run) {
  try {
    outcomes[name] = (await run()) ?? 'works';
  } catch (error) {
    outcomes[name] = `failed: ${error.message}`;
  }
}
await check('every action', async () => act(await signIn(browser, base, token), base, 'with-script'));
await check('every action without script', async () =>
  act(await signIn(browser, base, token, { javaScriptEnabled: false }), base, 'without-script'));
let protocol = 'not seen';
await check('16 tabs, live events', async () => {
  protocol = await follow(await signIn(browser, base, token), base, 'tabs');
});
await check('HTTP/2', () => (protocol === 'h2' ? undefined : protocol));
console.log(JSON.stringify(outcomes));
process.exit(); // ends the browser too
