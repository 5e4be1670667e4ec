// The OpenAPI description as a page, without a request to another host.

const place = document.getElementById("routes");

function element(name, ...children) {
  const made = document.createElement(name);
  made.append(...children);
  return made;
}

function typeOf(schema) {
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" or ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" or ");
  if (schema.items) return `list of ${typeOf(schema.items)}`;
  if (schema.$ref) return schema.$ref.split("/").pop();
  return schema.type ?? "any";
}

function fields(schema) {
  const rows = Object.entries(schema.properties ?? {}).map(([name, one]) =>
    element(
      "tr",
      element("td", element("code", name)),
      element("td", typeOf(one)),
      element("td", schema.required?.includes(name) ? "needed" : ""),
      element("td", one.description ?? ""),
    ),
  );
  const head = element("tr", ...["Field", "Type", "", "Meaning"].map((name) => element("th", name)));
  return element("table", element("thead", head), element("tbody", ...rows));
}

function answers(responses) {
  const rows = Object.entries(responses).map(([status, one]) =>
    element("tr", element("td", element("code", status)), element("td", one.description)),
  );
  return element("table", element("tbody", ...rows));
}

function example(path, schema) {
  const body = {};
  for (const [name, one] of Object.entries(schema.properties)) if (one.examples) body[name] = one.examples[0];
  const address = new URL(path.slice(1), document.baseURI);
  return element("pre", `curl ${address} \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body)}'`);
}

function route(path, method, about) {
  const made = element("section", element("h2", element("code", `${method.toUpperCase()} ${path}`)));
  made.append(element("p", about.summary ?? ""));
  const schema = about.requestBody?.content["application/json"]?.schema;
  if (schema) made.append(fields(schema), element("p", "For instance:"), example(path, schema));
  made.append(element("p", "Answers:"), answers(about.responses));
  return made;
}

try {
  const found = await (await fetch("openapi.json")).json();
  place.replaceChildren(
    ...Object.entries(found.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, about]) => route(path, method, about)),
    ),
  );
} catch {
  place.replaceChildren(element("p", "The server does not answer."));
}
