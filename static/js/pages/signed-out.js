// The page after signing out: deletes the person's data in this browser.
import { forget } from "../shell/device.js";

forget();
