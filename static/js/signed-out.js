// Whoever signed out was led here: nothing of theirs stays in this browser.
import { forget } from "./device.js";

forget();
