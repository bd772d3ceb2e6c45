/**
 * The pages as a screen reader and a keyboard meet them: rules of WCAG that a program can check,
 * and the way of the focus.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import axe from 'axe-core'
import { vmOnWire } from '../vm-on-wire.ts'
import { fitsItsWindow, skip, WIDE } from './support/browser.ts'
import { createVm, hostStages, observe } from './support/host-stage.ts'
import type { AxeResults } from 'axe-core'
import type { Generation, VmId } from '../../src/core/ids.ts'
import type { Fault } from '../../src/core/vm/record.ts'
import type { Page } from 'playwright-core'
import type { HostStage } from './support/host-stage.ts'

const stage = hostStages()
const PHONE = { width: 360, height: 740 }

/** Returns what breaks WCAG 2.2 at level AA, as far as axe-core can see it. */
async function faultsOf(page: Page): Promise<string[]> {
  await page.evaluate(axe.source)
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
  const found = await page.evaluate<AxeResults>(
    `axe.run({ runOnly: ${JSON.stringify(tags)}, resultTypes: ['violations'] })`,
  )
  return found.violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ html, any }) => `${id}: ${help}: ${html} ${any.map(({ message }) => message).join('; ')}`),
  )
}

/** Returns the elements whose content is wider than they are, except what is made to be moved sideways. */
const cutOff = async (page: Page): Promise<string[]> =>
  page.evaluate<string[]>(`
    [...document.querySelectorAll('header *, main *')]
      .filter((one) => !one.closest('#choices, #terminal, .unseen, input') && !one.querySelector('#choices'))
      .filter((one) => one.clientWidth > 0 && one.scrollWidth > one.clientWidth)
      .map((one) => one.outerHTML.slice(0, 100))`)

/** Returns the contrast of the hint in an empty field (WCAG 2.2, 1.4.3), which axe-core does not look at. */
const placeholderContrast = async (page: Page, selector: string): Promise<number> =>
  page.evaluate<number>(`{
    const field = document.querySelector(${JSON.stringify(selector)})
    const part = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    const light = (color) => {
      const [red, green, blue] = color.match(/[0-9.]+/g).map((value) => part(value / 255))
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05
    }
    const back = light(getComputedStyle(field).backgroundColor)
    const text = light(getComputedStyle(field, '::placeholder').color)
    Math.max(back, text) / Math.min(back, text)
  }`)

const fault: Fault = {
  ...{ code: 'network_failed', step: 'network.ensure-tap', message: 'making tap vmt1: EBUSY' },
  ...{ generation: 1 as Generation, sinceMs: 0, attempt: 3, nextAttemptAtMs: 0 },
}

/** Makes VMs of each colour, one with an error. */
async function fill({ host }: HostStage): Promise<void> {
  for (const [id, state] of [
    ['runs', 'running'],
    ['rests', 'stopped'],
    ['sleeps', 'sleeping'],
    ['starts', 'starting'],
    ['fails', 'failed'],
  ] as const) {
    await createVm(host, id, { labels: { env: 'prod' } })
    observe(host, id, { state, ...(state === 'failed' ? { fault } : {}) }, state !== 'starting')
  }
}

for (const colorScheme of ['light', 'dark'] as const) {
  test(`every page passes the rules in ${colorScheme} colours, wide and on a phone`, { skip }, async (t) => {
    const clients = [{ commonName: 'anna', role: 'console', vm: 'runs' }] as const
    const staged = await stage(t, { clients })
    await fill(staged)
    await staged.host.host.consoles.ensureMaster('runs' as VmId)
    // With a touch screen, the console page has keys of its own.
    const { page, origin } = await staged.visit(undefined, { colorScheme, hasTouch: true })
    for (const size of [WIDE, PHONE]) {
      await page.setViewportSize(size)
      for (const [path, sign] of [
        ['/ui/', 'tbody:nth-of-type(5)'],
        ['/ui/?state=error', 'tbody'],
        ['/ui/?q=none', '#no-match:not([hidden])'],
        ['/ui/console/runs', 'body[data-state=attached]'],
        ['/ui/console/rests', 'body[data-state=waiting]'],
        ['/ui/console/nothing', '#notice:not([hidden])'],
        ['/ui/console/NOPE!', 'h1'],
        ['/docs/errors', 'table'],
      ] as const) {
        await page.goto(origin + path)
        await page.locator(sign).first().waitFor()
        assert.deepEqual(await faultsOf(page), [], `${path} at ${size.width}`)
      }
    }
    await page.goto(`${origin}/ui/`)
    assert.ok((await placeholderContrast(page, '#text')) >= 4.5)
    const anna = await staged.visit('anna', { colorScheme })
    await anna.page.goto(`${origin}/ui/`)
    await anna.page.getByLabel('Name of the VM').waitFor()
    assert.deepEqual(await faultsOf(anna.page), [])
  })
}

test('the table is one for a screen reader, wide and on a phone', { skip }, async (t) => {
  const staged = await stage(t)
  await createVm(staged.host, 'web-1', { network: { ipv4_address: '192.0.2.10' } })
  const { page, origin } = await staged.visit()
  for (const size of [WIDE, PHONE]) {
    await page.setViewportSize(size)
    await page.goto(`${origin}/ui/`)
    const row = page.getByRole('table', { name: 'VMs of this host' }).getByRole('row', { name: /^web-1 / })
    await row.getByRole('rowheader', { name: 'web-1' }).waitFor()
    assert.equal(await row.getByRole('cell').count(), 5)
    for (const name of ['Capacity', 'VMs']) await page.getByRole('region', { name }).waitFor()
    for (const role of ['banner', 'main', 'search'] as const)
      assert.equal(await page.getByRole(role).count(), 1, role)
  }
})

test('the keyboard alone filters, sorts, chooses a state and opens a console', { skip }, async (t) => {
  const staged = await stage(t)
  await fill(staged)
  const { page, origin } = await staged.visit()
  await page.goto(`${origin}/ui/`)
  await page.locator('tbody').first().waitFor()
  const focused = async (): Promise<string> =>
    page.evaluate<string>('document.activeElement.id || document.activeElement.textContent')
  const way: string[] = []
  for (let stops = 0; stops < 14; stops += 1) {
    await page.keyboard.press('Tab')
    way.push(await focused())
    const outline = await page.evaluate<string>('getComputedStyle(document.activeElement).outlineStyle')
    assert.notEqual(outline, 'none', `${way.at(-1)} shows that it has the focus`)
  }
  assert.deepEqual(way, [
    ...['API reference', 'text', 'All 5', 'With an error 1', 'failed 1', 'starting 1', 'running 1'],
    ...['sleeping 1', 'stopped 1', 'Name', 'State', 'Memory', 'Last traffic', 'Console'],
  ])
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/ui\/console\/fails$/)
})

test(
  'a screen reader hears errors, the connection and what the reader chose, and no other change',
  { skip },
  async (t) => {
    const staged = await stage(t)
    await fill(staged)
    const { host } = staged
    const { page, origin } = await staged.visit()
    await page.goto(`${origin}/ui/`)
    await page.locator('body[data-status=live]').waitFor()
    await page.evaluate(`{
    window.heard = []
    const note = () => {
      for (const place of document.querySelectorAll('[role=status], [role=alert]')) {
        const words = place.hidden ? '' : place.textContent.trim()
        if (words !== '' && words !== place.lastWords) window.heard.push(words)
        place.lastWords = words
      }
    }
    note()
    window.heard.length = 0
    new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true })
  }`)
    const heard = async (): Promise<string[]> => page.evaluate<string[]>('window.heard.splice(0)')
    observe(host, 'rests', { state: 'running' })
    await createVm(host, 'new')
    await page.getByRole('row', { name: /^new / }).waitFor()
    assert.deepEqual(await heard(), [])
    observe(host, 'runs', { state: 'running', fault }, false)
    await page.getByText('runs has an error').waitFor({ state: 'attached' })
    assert.deepEqual(await heard(), ['runs has an error: EBUSY (making tap vmt1), in network.ensure-tap.'])
    await page.getByLabel('Filter').fill('st')
    await page.locator('tbody').nth(1).waitFor()
    assert.deepEqual(await heard(), ['2 of 6 VMs'])
    await host.close(0)
    await page.locator('body[data-status=away]').waitFor()
    assert.deepEqual(await heard(), ['The host does not answer. Trying again; this may be out of date'])
  },
)

test('the focus stays on the console of a VM that moves in the list', { skip }, async (t) => {
  const staged = await stage(t)
  for (const id of ['a', 'b', 'c']) {
    await createVm(staged.host, id)
    observe(staged.host, id, { state: 'running' })
  }
  const { page, origin } = await staged.visit()
  await page.goto(`${origin}/ui/?sort=state`)
  await page.locator('body[data-status=live]').waitFor()
  await page.getByRole('link', { name: 'Console of b' }).focus()
  observe(staged.host, 'c', { state: 'failed', fault }, false)
  await page.locator('tbody:first-of-type .id', { hasText: 'c' }).waitFor()
  observe(staged.host, 'a', { state: 'stopped' })
  await page.locator('tbody:last-of-type .id', { hasText: 'a' }).waitFor()
  assert.equal(await page.evaluate('document.activeElement.getAttribute("aria-label")'), 'Console of b')
})

test('nothing is wider than a phone, however long names and errors are', { skip }, async (t) => {
  const staged = await stage(t)
  const { host } = staged
  const long = 'a'.repeat(63)
  await createVm(host, long, { labels: { ['k'.repeat(60)]: 'v'.repeat(60) } })
  observe(host, long, { state: 'failed', fault: { ...fault, message: 'x'.repeat(300) } }, false)
  await host.host.consoles.ensureMaster(long as VmId)
  const { page, origin } = await staged.visit(undefined, { viewport: PHONE })
  const ids = Array.from({ length: 1000 }, (_, index) => `${long.slice(4)}${index}`)
  const many = ids.map((id) => vmOnWire(id, { observed: { state: 'failed', error: 'x'.repeat(300) } }))
  for (const path of ['/ui/', '/ui/?state=error', `/ui/?q=${long}b`, `/ui/console/${long}`, '/docs/errors']) {
    await page.goto(origin + path)
    await page.locator('tbody, #no-match:not([hidden]), body[data-state=attached]').first().waitFor()
    assert.ok(await fitsItsWindow(page), path)
    assert.deepEqual(await cutOff(page), [], path)
  }
  await page.route(/\/v1\/vms\?/, async (route) =>
    route.fulfill({ json: { items: many, revision: host.store.events.newest } }),
  )
  await page.goto(`${origin}/ui/`)
  await page.locator('tbody').nth(999).scrollIntoViewIfNeeded()
  assert.ok(await fitsItsWindow(page), 'with 1,000 VMs')
})
