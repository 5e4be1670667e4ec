// Questions to the studio's server. A fault that it names arrives as an Error with its diagnostics.

async function ask(path, options) {
  let reply;
  try {
    reply = await fetch(path, options);
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Error("the studio does not answer: was it ended?");
  }
  const body = await reply.json().catch(() => ({}));
  if (reply.ok) return body;
  const fault = new Error(body.error ? words(body.error) : `the studio answered ${reply.status}`);
  fault.faults = body.faults ?? (body.error ? [body.error] : []);
  throw fault;
}

/** A diagnostic in one line. */
export const words = (fault) => `${fault.code}: ${fault.message}${fault.help ? ` – ${fault.help}` : ""}`;

export const get = (path) => ask(path, {});

export const post = (path, body, signal) =>
  ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body ?? {}), signal });

/** Follows a job: calls `onevent` for each event from number `after` on, until it ends, also where one event cannot be shown. */
export async function follow(job, after, onevent) {
  for (;;) {
    const report = await get(`/api/jobs/${encodeURIComponent(job)}?after=${after}`);
    for (const event of report.events) {
      try {
        onevent(event);
      } catch (e) {
        reportError(e);
      }
    }
    after += report.events.length;
    if (!report.running && !report.events.length) return after;
    await new Promise((done) => setTimeout(done, report.running ? 250 : 50));
  }
}
