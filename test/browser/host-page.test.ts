/** The page of the host in a real browser, over the real listener, with VMs that a test sets. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import { until } from '../contract/until.ts'
import { vmOnWire } from '../vm-on-wire.ts'
import { fitsItsWindow, foreign, NARROW, skip, WIDE } from './support/browser.ts'
import { createVm, hostStages, observe, remove } from './support/host-stage.ts'
import type { Locator, Page } from 'playwright-core'
import type { VisitOptions } from './support/browser.ts'
import type { HostStage } from './support/host-stage.ts'

const stage = hostStages()

const fault = {
  code: 'network_failed',
  step: 'network.ensure-tap',
  message: `making tap vmt1: EBUSY: device or resource busy${', and much more about it'.repeat(10)}`,
  generation: 1,
  sinceMs: 0,
  attempt: 3,
  nextAttemptAtMs: 0,
} as const

/** Waits until a place shows a text. */
const shows = async (place: Locator, words: RegExp | string): Promise<string> =>
  until(
    () => place.innerText(),
    (text) => (typeof words === 'string' ? text === words : words.test(text)),
  )

/**
 * Waits until the table has exactly these VMs in this order. Rows out of sight are not laid out,
 * so they have no inner text.
 */
const lists = (page: Page, ids: readonly string[]) =>
  until(
    () => page.locator('tbody .id').allTextContents(),
    (found) => found.join() === ids.join(),
  )

const rowOf = (page: Page, id: string): Locator =>
  page.locator('tbody').filter({ has: page.getByRole('rowheader', { name: id }) })

/** Opens the page as the controller or another client, at an address of it. */
async function open(
  staged: HostStage,
  client?: string,
  options: { search?: string; context?: VisitOptions['context'] } = {},
) {
  const visited = await staged.visit(client, options.context)
  await visited.page.goto(`${visited.origin}/ui/${options.search ?? ''}`)
  return visited
}

test('an empty host shows its capacity, and how to make a VM', { skip }, async (t) => {
  const staged = await stage(t)
  const visited = await open(staged)
  const { page, origin, requests } = visited
  await shows(page.locator('#status'), 'Live')
  await page.getByText('There is no VM on this host yet').waitFor()
  assert.equal(await page.getByRole('heading', { level: 1 }).innerText(), 'host-1')
  assert.match(await page.locator('#meters').innerText(), /Memory\s+0 MiB of 7 GiB committed/)
  assert.ok(await page.getByLabel('Filter').isHidden())
  for (const path of ['/ui/vms.js', '/ui/vms.css', '/v1/sync'])
    assert.ok(requests.includes(origin + path), path)
  assert.deepEqual(foreign(visited), [])
  assert.deepEqual(visited.complaints, [])
})

test(
  'each VM is shown with state, error, memory and last traffic; the error is whole',
  { skip },
  async (t) => {
    const staged = await stage(t)
    const { host } = staged
    const now = host.clock.now()
    await createVm(host, 'web-1', { network: { ipv4_address: '192.0.2.10' }, labels: { env: 'prod' } })
    observe(host, 'web-1', { sinceMs: now - 7_200_000, lastTrafficAtMs: now - 300_000 })
    await createVm(host, 'broken')
    observe(host, 'broken', { state: 'pending', fault: { ...fault, generation: 1 as never } }, false)
    const visited = await open(staged)
    const { page } = visited
    await lists(page, ['broken', 'web-1'])
    assert.equal(
      (await rowOf(page, 'web-1').innerText()).replaceAll(/\s+/g, ' '),
      'web-1 env=prod running 2 h 512 MiB 5 min ago 192.0.2.10 Console',
    )
    for (const size of [WIDE, NARROW, { width: 320, height: 600 }]) {
      await page.setViewportSize(size)
      const error = rowOf(page, 'broken').getByText('Error:')
      await error.waitFor()
      assert.match(await rowOf(page, 'broken').innerText(), /EBUSY.*\(network_failed, attempt 3\)/)
      assert.ok(await fitsItsWindow(page), `${size.width}`)
    }
    assert.equal(await page.title(), 'host-1 · 1 with an error · vmhostd')
    assert.deepEqual(visited.complaints, [])
  },
)

test(
  'changes are shown as they happen, in rows that stay, with the focus where it was',
  { skip },
  async (t) => {
    const staged = await stage(t)
    const { host } = staged
    for (const id of ['a', 'b', 'c']) {
      await createVm(host, id)
      observe(host, id, {})
    }
    const visited = await open(staged)
    const { page, requests } = visited
    await lists(page, ['a', 'b', 'c'])
    await shows(page.locator('#status'), 'Live')
    await rowOf(page, 'b').getByRole('link', { name: 'Console of b' }).focus()
    requests.length = 0
    observe(host, 'b', { state: 'stopped' })
    await shows(rowOf(page, 'b').locator('.state'), 'stopped')
    observe(host, 'c', { state: 'pending', fault: { ...fault, generation: 1 as never } })
    await shows(page.locator('#announcement'), /^c has an error: EBUSY/)
    await remove(host, 'a')
    await createVm(host, 'aa')
    await lists(page, ['aa', 'b', 'c'])
    assert.equal(await page.evaluate('document.activeElement.getAttribute("aria-label")'), 'Console of b')
    // Nothing is asked about a single VM.
    assert.deepEqual(
      requests.filter((url) => !/\/v1\/(vms\?limit=\d+&changed_after=\d+|sync)$/.test(url)),
      [],
    )
    assert.deepEqual(visited.complaints, [])
  },
)

test('the list is filtered and sorted, and the address keeps that', { skip }, async (t) => {
  const staged = await stage(t)
  const { host } = staged
  for (const [id, memory, state] of [
    ['web-2', 512, 'running'],
    ['web-10', 1024, 'running'],
    ['db', 2048, 'sleeping'],
  ] as const) {
    const compute = { cpu_millicores: 1000, memory_mib: memory, sleep_after_idle_seconds: 0 }
    await createVm(host, id, { compute })
    observe(host, id, { state })
  }
  const visited = await open(staged)
  const { page } = visited
  await lists(page, ['db', 'web-2', 'web-10'])
  await page.getByRole('button', { name: 'Memory' }).click()
  await lists(page, ['db', 'web-10', 'web-2'])
  assert.equal(
    await page.getByRole('columnheader', { name: 'Memory' }).getAttribute('aria-sort'),
    'descending',
  )
  await page.getByLabel('Filter').fill('web')
  await lists(page, ['web-10', 'web-2'])
  await shows(page.locator('#count'), '2 of 3 VMs')
  assert.match(page.url(), /\/ui\/\?q=web&sort=memory&order=desc$/)
  await page.getByRole('link', { name: 'sleeping 1' }).click()
  await page.getByText('No VM matches.').waitFor()
  await page.reload()
  await page.getByText('No VM matches.').waitFor()
  assert.equal(await page.getByLabel('Filter').inputValue(), 'web')
  await page.getByRole('button', { name: 'Show all VMs' }).click()
  await lists(page, ['db', 'web-10', 'web-2'])
  await page.getByRole('link', { name: 'running 2' }).click()
  await lists(page, ['web-10', 'web-2'])
  await page.goBack()
  await lists(page, ['db', 'web-10', 'web-2'])
})

test('with 1,000 VMs a change touches its row alone, and no other is made again', { skip }, async (t) => {
  const staged = await stage(t)
  const visited = await staged.visit()
  const { page, origin } = visited
  const ids = Array.from({ length: 1000 }, (_, index) => `vm-${index}`)
  const changed = vmOnWire('vm-7', { observed: { state: 'stopped' } })
  await page.route(/\/v1\/vms\?/, async (route) => {
    const isList = !route.request().url().includes('changed_after')
    const items = isList ? ids.map((id) => vmOnWire(id)) : [changed]
    await route.fulfill({ json: { items, revision: staged.host.store.events.newest } })
  })
  await page.goto(`${origin}/ui/`)
  await lists(page, ids)
  await shows(page.locator('#status'), 'Live')
  await page.evaluate(`{
    window.touched = new Set()
    const idOf = (node) => (node.closest ? node : node.parentElement).closest('tbody')?.querySelector('.id').textContent ?? 'the table'
    new MutationObserver((changes) => {
      for (const { target } of changes) window.touched.add(idOf(target))
    }).observe(document.querySelector('#vms'), { subtree: true, childList: true, characterData: true, attributes: true })
  }`)
  // Its event lets the page ask.
  await createVm(staged.host, 'another')
  await shows(page.locator('#choices'), /stopped 1/)
  assert.deepEqual(await page.evaluate('[...window.touched]'), ['vm-7'])
  await page.getByLabel('Filter').fill('vm-99')
  await lists(
    page,
    ids.filter((id) => id.startsWith('vm-99')),
  )
})

test(
  'while the daemon is away the page says so and keeps what it knows; then it goes on',
  { skip },
  async (t) => {
    const staged = await stage(t)
    const { host } = staged
    await createVm(host, 'a')
    const { page } = await open(staged)
    await shows(page.locator('#status'), 'Live')
    await host.close(0)
    await shows(page.locator('#status'), /^The host does not answer\. Trying again/)
    await lists(page, ['a'])
    await host.reopen()
    await createVm(host, 'b')
    await lists(page, ['a', 'b'])
    await shows(page.locator('#status'), 'Live')
  },
)

test(
  'a host that cannot be inspected shows its VMs, and why the capacity is missing',
  { skip },
  async (t) => {
    const staged = await stage(t)
    const { host } = staged
    await createVm(host, 'a')
    host.figures.break('memory', new HostFault('capacity_unknown', 'reading the memory of the host'))
    const { page } = await open(staged)
    await lists(page, ['a'])
    await page.getByText('The capacity is not known: reading the memory of the host.').waitFor()
    assert.ok(await page.locator('#meters').isHidden())
  },
)

test(
  'a reader sees the list without consoles; a client for consoles gets a way to open one',
  { skip },
  async (t) => {
    const staged = await stage(t, {
      clients: [
        { commonName: 'metrics', role: 'reader' },
        { commonName: 'anna', role: 'console', vm: 'a' },
      ],
    })
    const { host } = staged
    await createVm(host, 'a')
    const { page } = await open(staged, 'metrics')
    await lists(page, ['a'])
    assert.equal(await page.locator('.to-console').count(), 0)
    const anna = await open(staged, 'anna')
    await anna.page.getByRole('heading', { name: 'Open a console' }).waitFor()
    await anna.page.getByLabel('Name of the VM').fill('a')
    await anna.page.getByRole('button', { name: 'Open' }).click()
    await anna.page.waitForURL(/\/ui\/console\/a$/)
  },
)

test('the roots of the listener lead to the page', { skip }, async (t) => {
  const staged = await stage(t)
  const { page, origin } = await staged.visit()
  for (const path of ['/', '/ui', '/ui/']) {
    await page.goto(origin + path)
    await page.getByRole('heading', { name: 'host-1' }).waitFor()
    assert.equal(page.url(), `${origin}/ui/`)
  }
})
