/** The reference in a real browser, over the real listener, with no way out to any other host. */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { chromium } from 'playwright-core'
import { CHROMIUM } from '../../tools/apt.ts'
import { makePki, startControllerHost } from '../daemon/support/controller-host.ts'
import type { TestContext } from 'node:test'
import type { Browser, Locator, Page } from 'playwright-core'
import type { Json, Pki } from '../daemon/support/controller-host.ts'

const skip = existsSync(CHROMIUM.probe) ? false : 'Chromium is not installed; as root, ./dev test does that'
/** Rendering 4 MB of script on a machine that has much else to do. */
const RENDER_BOUND_MS = 60_000
const WIDE = { width: 1400, height: 1000 }
const NARROW = { width: 420, height: 900 }

let pki: Pki
let browser: Browser
const home = mkdtempSync(join(tmpdir(), 'browser-home-'))
before(async () => {
  if (skip !== false) return
  pki = await makePki()
  browser = await chromium.launch({
    executablePath: CHROMIUM.probe,
    timeout: RENDER_BOUND_MS,
    env: { ...process.env, HOME: home },
    // Its own sandbox does not start for root. What it asks for by itself, as for updates, has no address.
    args: ['--no-sandbox', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
  })
})
after(async () => {
  await browser?.close()
  rmSync(home, { recursive: true, force: true })
})

type Visit = {
  readonly page: Page
  readonly origin: string
  /** Every address that was asked for. */
  readonly requests: string[]
  /** What a developer would see in red: errors of the console, exceptions, refused and failed requests. */
  readonly complaints: string[]
}

/** A page with the controller's certificate, watched from its first request on. */
async function visitor(t: TestContext): Promise<Visit> {
  const host = await startControllerHost(t, pki)
  const origin = `https://127.0.0.1:${host.port}`
  const { certificate, key } = pki.controller
  const context = await browser.newContext({
    viewport: WIDE,
    // The browser does not know the authority of this test.
    ignoreHTTPSErrors: true,
    clientCertificates: [{ origin, cert: Buffer.from(certificate), key: Buffer.from(key) }],
  })
  t.after(async () => context.close())
  context.setDefaultTimeout(RENDER_BOUND_MS)
  // The client certificate goes through a proxy of the driver's, which would look names up by itself.
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
  return { page: await context.newPage(), origin, requests, complaints }
}

/** A page too wide for its window would have to be scrolled sideways. */
const fitsItsWindow = async (page: Page): Promise<boolean> =>
  page.evaluate<boolean>('document.documentElement.scrollWidth <= document.documentElement.clientWidth')

const foreign = ({ requests, origin }: Visit): string[] =>
  requests.filter((url) => !url.startsWith(`${origin}/`) && !url.startsWith('data:'))

test(
  'the reference shows every operation offline, without a complaint or a request to elsewhere',
  { skip },
  async (t) => {
    const visit = await visitor(t)
    const { page, origin, requests, complaints } = visit
    const loaded = page.waitForResponse(`${origin}/docs/swagger.json`)
    await page.goto(`${origin}/docs`)
    const { paths }: Json = await (await loaded).json()
    const summaries = Object.values<Json>(paths).flatMap((methods) =>
      Object.values<Json>(methods).map(({ summary }) => String(summary)),
    )
    assert.ok(summaries.includes('Create a VM'))
    for (const summary of summaries) await show(page, summary)

    const answers = page.locator('section', { has: await show(page, 'Create a VM') }).last()
    await answers.getByRole('tab', { name: '409' }).click()
    await answers.getByText('"/docs/errors#conflict"').waitFor()
    assert.ok(await fitsItsWindow(page))
    await page.getByRole('link', { name: 'Introduction' }).click()
    const codes = page.getByRole('link', { name: 'all codes' })
    assert.equal(await codes.getAttribute('href'), '/docs/errors')
    await page.setViewportSize(NARROW)
    await codes.waitFor()
    assert.ok(await fitsItsWindow(page))

    for (const path of ['/docs', '/docs/scalar.js', '/docs/start.js', '/docs/swagger.json'])
      assert.ok(requests.includes(origin + path), path)
    assert.deepEqual(foreign(visit), [])
    assert.deepEqual(complaints, [])
  },
)

/** Chooses an operation in the list at the side. The page makes its section only then. */
async function show(page: Page, summary: string): Promise<Locator> {
  await page.locator('aside').getByText(summary, { exact: true }).click()
  const heading = page.getByRole('heading', { name: summary, level: 3 })
  await heading.waitFor()
  return heading
}

test('the page of the error codes shows the code that a problem leads to', { skip }, async (t) => {
  const visit = await visitor(t)
  const { page, origin, complaints } = visit
  await page.goto(`${origin}/docs/errors#conflict`)
  const row = page.locator('tr:target')
  for (const size of [WIDE, NARROW]) {
    await page.setViewportSize(size)
    await row.getByText('conflict', { exact: true }).waitFor()
    assert.match(await row.innerText(), /409/)
    assert.ok(await fitsItsWindow(page))
  }
  assert.deepEqual(foreign(visit), [])
  assert.deepEqual(complaints, [])
})

test('the browser reaches no other host, and these tests would see it try', { skip }, async (t) => {
  const visit = await visitor(t)
  const { page, origin, complaints } = visit
  await page.goto(`${origin}/docs/errors`)
  const refusal = page.waitForEvent('console', (message) => /Content Security Policy/.test(message.text()))
  await assert.rejects(page.evaluate(async () => fetch('https://images.example.net/')))
  assert.equal((await refusal).type(), 'error')
  // This name has an address everywhere.
  const elsewhere = origin.replace('127.0.0.1', 'localhost')
  await assert.rejects(page.goto(`${elsewhere}/docs`), /ERR_BLOCKED_BY_CLIENT/)
  assert.deepEqual(foreign(visit), [`${elsewhere}/docs`])
  assert.match(complaints.join('\n'), /BLOCKED_BY_CLIENT/)
})
