import { sh } from './shell.ts'
import { until } from './until.ts'

/** What a demo guest says of itself on its page. */
export type GuestPage = {
  readonly text: string
  /** Of the kernel's boot: another one is another life. */
  readonly bootId: string
  /** Its own clock. */
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

/** The same, asked until it is answered: a guest that falls asleep over an answer gives it when it is asked again. */
export const servedPage = (host: string): Promise<GuestPage> =>
  until(`the guest at ${host} serves its page`, () => guestPage(host))
