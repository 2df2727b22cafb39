"use strict";

// Shows the document of the node that serves this page, and sends what is tried out to it.
SwaggerUIBundle({
  url: new URL("openapi.json", document.baseURI).href,
  dom_id: "#document",
  deepLinking: true,
  docExpansion: "none",
  filter: true,
  persistAuthorization: false, // a key stays in memory
  validatorUrl: null, // asks nobody else
});
