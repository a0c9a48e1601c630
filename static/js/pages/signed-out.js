// Whoever signed out was led here: nothing of theirs stays in this browser.
import { forget } from "../shell/device.js";

forget();
