import { sh } from './shell.ts'
import { until } from './until.ts'

/** The content of a demo guest's page. */
export type GuestPage = {
  readonly text: string
  /** Id of the kernel's boot: a different one means that the guest was booted again. */
  readonly bootId: string
  /** Time of the guest's own clock. */
  readonly atMs: number
}

/** Fetches and reads the page of the demo guest at this address. */
export async function guestPage(host: string, boundSeconds = 3): Promise<GuestPage> {
  const address = host.includes(':') ? `[${host}]` : host
  const options = ['--silent', '--fail', '--location', '--globoff', '--max-time', String(boundSeconds)]
  const html = await sh('curl', ...options, `http://${address}/`)
  const text = html
    .replaceAll(/<[^>]*>|\s+/g, ' ')
    .replaceAll(/ +/g, ' ')
    .trim()
  const bootId = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/.exec(text)?.[0]
  const date = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/.exec(text)?.[0]
  if (bootId === undefined || date === undefined) throw new Error(`${host} does not say who it is: ${text}`)
  return { text, bootId, atMs: Date.parse(date) }
}

/**
 * Repeats the request until it is answered: a guest may fall asleep over an answer and gives it at the next request.
 */
export const servedPage = (host: string): Promise<GuestPage> =>
  until(`the guest at ${host} serves its page`, () => guestPage(host))
