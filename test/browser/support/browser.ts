/** A real browser for tests, which can reach only the host that it visits. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import { CHROMIUM } from '../../../tools/apt.ts'
import type { TestContext } from 'node:test'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'

/** Reason why tests cannot open a browser here, or false. */
export const skip = existsSync(CHROMIUM.probe)
  ? false
  : 'Chromium is not installed; as root, ./dev test does that'
/** Allows for rendering megabytes of script on a busy machine. */
const RENDER_BOUND_MS = 60_000
export const WIDE = { width: 1400, height: 1000 }
export const NARROW = { width: 420, height: 900 }

export type OpenBrowser = { readonly browser: Browser; close(): Promise<void> }

export async function openBrowser(): Promise<OpenBrowser> {
  const home = mkdtempSync(join(tmpdir(), 'browser-home-'))
  const browser = await chromium.launch({
    executablePath: CHROMIUM.probe,
    timeout: RENDER_BOUND_MS,
    env: { ...process.env, HOME: home },
    // Its own sandbox does not start for root. Its own requests, for updates for example, get no address.
    args: ['--no-sandbox', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
  })
  return {
    browser,
    async close() {
      await browser.close()
      rmSync(home, { recursive: true, force: true })
    },
  }
}

export type Visit = {
  readonly page: Page
  readonly origin: string
  /** Every requested address, including WebSockets. */
  readonly requests: string[]
  /** Messages that a developer would see in red: errors of the console, exceptions, refused and failed requests. */
  readonly complaints: string[]
}

export type VisitOptions = {
  /** Port of the listener on loopback. */
  readonly port: number
  /** Certificate of the controller. */
  readonly certificate: string
  readonly key: string
  readonly context?: BrowserContextOptions
}

/** Opens an empty page with the controller's certificate, watched from its first request on. */
export async function visit(t: TestContext, { browser }: OpenBrowser, options: VisitOptions): Promise<Visit> {
  const origin = `https://127.0.0.1:${options.port}`
  const context = await browser.newContext({
    viewport: WIDE,
    // The browser does not know the authority of this test.
    ignoreHTTPSErrors: true,
    clientCertificates: [{ origin, cert: Buffer.from(options.certificate), key: Buffer.from(options.key) }],
    ...options.context,
  })
  t.after(async () => context.close())
  context.setDefaultTimeout(RENDER_BOUND_MS)
  // The client certificate goes through a proxy of the browser driver, which would resolve names by itself.
  await context.route(
    (url) => url.origin !== origin,
    async (route) => route.abort('blockedbyclient'),
  )
  const requests: string[] = []
  const complaints: string[] = []
  context.on('request', (request) => requests.push(request.url()))
  context.on('requestfailed', (request) =>
    complaints.push(`${request.url()} failed: ${request.failure()?.errorText}`),
  )
  context.on('response', (response) => {
    if (!response.ok()) complaints.push(`${response.url()} answered ${response.status()}`)
  })
  context.on('console', (message) => {
    if (['error', 'warning', 'assert'].includes(message.type()))
      complaints.push(`${message.type()}: ${message.text()}`)
  })
  context.on('weberror', (error) => complaints.push(String(error.error())))
  const page = await context.newPage()
  page.on('websocket', (socket) => requests.push(socket.url().replace(/^wss:/, 'https:')))
  return { page, origin, requests, complaints }
}

/** Whether the page fits; a page that is too wide for its window would need sideways scrolling. */
export const fitsItsWindow = async (page: Page): Promise<boolean> =>
  page.evaluate<boolean>('document.documentElement.scrollWidth <= document.documentElement.clientWidth')

/** Returns the requests that went to other hosts. */
export const foreign = ({ requests, origin }: Visit): string[] =>
  requests.filter((url) => !url.startsWith(`${origin}/`) && !url.startsWith('data:'))
