"""Speech by the browser: dictation and reading aloud, with its two interfaces replaced."""

from playwright.sync_api import expect

from tests.browser.doing import begin, heard, messages

SPEECH = """
  window.spoken = [];
  class Recognition extends EventTarget {
    start() { const result = Object.assign([{ transcript: "and it rains" }], { isFinal: true });
              this.onresult({ results: [result], resultIndex: 0 }); }
    stop() { this.onend(); }
  }
  Object.assign(window, { SpeechRecognition: Recognition, webkitSpeechRecognition: Recognition });
  const synthesis = { cancel: () => {}, speak: (words) => spoken.push(words.text) };
  Object.defineProperty(window, "speechSynthesis", { value: synthesis });
"""


def test_words_are_dictated_and_read_aloud(page):
    page.add_init_script(SPEECH)
    begin(page, "echo", "Good morning")
    heard(page, "Good morning")
    words, microphone = page.locator("#words"), page.get_by_role("button", name="Dictate")
    words.fill("It is warm")
    microphone.click()
    expect(words).to_have_value("It is warm and it rains")
    expect(microphone).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Escape")
    expect(microphone).to_have_attribute("aria-pressed", "false")

    messages(page).last.hover()
    page.get_by_role("button", name="More", exact=True).last.click()
    page.get_by_role("menuitem", name="Read aloud").click()
    page.wait_for_function("spoken.join() === 'Good morning'")
    page.get_by_role("button", name="Stop", exact=True).last.click()
    expect(page.get_by_text("Reading aloud.")).to_have_count(0)
