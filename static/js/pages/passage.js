// The page of a passage: begins at the passage, not at what stands around it.
document.getElementById("passage")?.scrollIntoView({ block: "center" });
