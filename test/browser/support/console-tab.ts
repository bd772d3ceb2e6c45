/** The console page, as its user sees it. */
import { until } from '../../contract/until.ts'
import type { Locator } from 'playwright-core'
import type { Visit } from './browser.ts'

export type ConsoleTab = {
  /** Status line of the page. */
  readonly status: Locator
  /** Waits for a state: attached, waiting, away, behind, refused, ended. */
  isIn(state: string, boundMs?: number): Promise<void>
  /** Text on the screen of the terminal, with its lines joined. */
  text(): Promise<string>
  /** First lines of the screen, without surrounding blanks. */
  lines(count: number): Promise<string[]>
  /** Waits until the screen shows a text that stands on one line. */
  shows(text: string, boundMs?: number): Promise<void>
  /** Types with the keyboard, wherever the focus is; a line feed is the Enter key. */
  type(text: string): Promise<void>
  /** Columns and rows, as the page shows them. */
  size(): Promise<readonly number[]>
}

/** Goes to the page of a VM; `query` begins with a question mark. */
export async function openConsole({ page, origin }: Visit, id: string, query = ''): Promise<ConsoleTab> {
  await page.goto(`${origin}/ui/console/${id}${query}`)
  const rows = page.locator('.xterm-rows > div')
  const text = async (): Promise<string> => (await rows.allInnerTexts()).join('\n').replaceAll('\u{a0}', ' ')
  return {
    status: page.getByRole('status'),
    async isIn(state, boundMs) {
      const body = page.locator('body')
      await until(
        () => body.getAttribute('data-state'),
        (found) => found === state,
        boundMs,
      )
    },
    text,
    lines: async (count) =>
      (await text())
        .split('\n')
        .slice(0, count)
        .map((line) => line.trim()),
    async shows(wanted, boundMs) {
      await until(text, (found) => found.includes(wanted), boundMs)
    },
    async type(typed) {
      await page.keyboard.type(typed)
    },
    async size() {
      const found = await page.locator('#size').innerText()
      return found.split('×').map(Number)
    },
  }
}
