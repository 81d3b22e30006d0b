// Adds the token in the environment to each request of undici, which is also the built-in `fetch`.
import { subscribe } from "node:diagnostics_channel";

subscribe("undici:request:create", ({ request }) => {
  request.addHeader("authorization", `Bearer ${process.env.TOKEN}`);
});
