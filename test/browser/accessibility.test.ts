/** The pages as a screen reader and a keyboard meet them: rules of WCAG that a program can check, and the way of the focus. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import axe from 'axe-core'
import { skip, WIDE } from './support/browser.ts'
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
    const { page, origin } = await staged.visit(undefined, { colorScheme })
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
