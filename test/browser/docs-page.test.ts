/** The reference in a real browser, over the real listener, without access to any other host. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { makePki, startControllerHost } from '../daemon/support/controller-host.ts'
import { fitsItsWindow, foreign, NARROW, openBrowser, skip, visit, WIDE } from './support/browser.ts'
import type { TestContext } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import type { Json, Pki } from '../daemon/support/controller-host.ts'
import type { OpenBrowser, Visit } from './support/browser.ts'

let pki: Pki
let browser: OpenBrowser | undefined
before(async () => {
  if (skip !== false) return
  pki = await makePki()
  browser = await openBrowser()
})
after(async () => browser?.close())

/** Opens a page with the controller's certificate on a listener of its own. */
async function visitor(t: TestContext): Promise<Visit> {
  assert.ok(browser)
  const { port } = await startControllerHost(t, pki)
  return visit(t, browser, { port, ...pki.controller })
}

test(
  'the reference shows every operation offline, without a complaint or a request to another host',
  { skip },
  async (t) => {
    const visited = await visitor(t)
    const { page, origin, requests, complaints } = visited
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
    assert.deepEqual(foreign(visited), [])
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

test('the page of the error codes shows the code that a problem links to', { skip }, async (t) => {
  const visited = await visitor(t)
  const { page, origin, complaints } = visited
  await page.goto(`${origin}/docs/errors#conflict`)
  const row = page.locator('tr:target')
  for (const size of [WIDE, NARROW]) {
    await page.setViewportSize(size)
    await row.getByText('conflict', { exact: true }).waitFor()
    assert.match(await row.innerText(), /409/)
    assert.ok(await fitsItsWindow(page))
  }
  assert.deepEqual(foreign(visited), [])
  assert.deepEqual(complaints, [])
})

test('the browser reaches no other host, and these tests would see an attempt', { skip }, async (t) => {
  const visited = await visitor(t)
  const { page, origin, complaints } = visited
  await page.goto(`${origin}/docs/errors`)
  const refusal = page.waitForEvent('console', (message) => /Content Security Policy/.test(message.text()))
  await assert.rejects(page.evaluate(async () => fetch('https://images.example.net/')))
  assert.equal((await refusal).type(), 'error')
  // This name has an address everywhere.
  const elsewhere = origin.replace('127.0.0.1', 'localhost')
  await assert.rejects(page.goto(`${elsewhere}/docs`), /ERR_BLOCKED_BY_CLIENT/)
  assert.deepEqual(foreign(visited), [`${elsewhere}/docs`])
  assert.match(complaints.join('\n'), /BLOCKED_BY_CLIENT/)
})
