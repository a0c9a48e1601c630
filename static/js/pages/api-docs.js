// The page of the client API. Requests on it use the reader's sign-in, or a key.

const root = document.querySelector("#docs");
const token = document.querySelector("meta[name=csrf-token]").content;

window.SwaggerUIBundle({
  url: root.dataset.schema,
  domNode: root,
  deepLinking: true,
  validatorUrl: null, // that would be another server
  requestInterceptor(request) {
    if (new URL(request.url, location.href).origin === location.origin) {
      request.headers["X-CSRFToken"] = token;
    }
    return request;
  },
});
