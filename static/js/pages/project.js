// A project's page: the first message of a session in it.
import { Beginning } from "../compose/beginning.js";

new Beginning(document.getElementById("composer"), `new:${location.pathname}`);
