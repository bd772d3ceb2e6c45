/** The console page in a real browser, over the real listener, on fake consoles. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { createBody } from '../daemon/support/controller-host.ts'
import { until } from '../contract/until.ts'
import { fakeHostKey } from '../fakes/fake-guest-shells.ts'
import { fitsItsWindow, foreign, NARROW, skip, WIDE } from './support/browser.ts'
import { consoleStages, VM } from './support/console-stage.ts'
import { openConsole } from './support/console-tab.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../src/core/ids.ts'
import type { FakeGuest } from '../fakes/fake-guest-shells.ts'
import type { Visit } from './support/browser.ts'
import type { ConsoleStage } from './support/console-stage.ts'

const stage = consoleStages()

const terminalOf = ({ host }: ConsoleStage) => {
  const session = host.host.consoles.session(VM)
  assert.ok(session)
  return session.terminal
}

/** Output that takes a terminal long to draw for its size. */
const SLOW_PIECE = Buffer.from('\x1b[31mx\x1b[32my\x1b[0m'.repeat(12_000))

/** Gives the page little time: the terminal draws for a moment, and then waits for its next turn. */
const drawSlowly = ({ page }: Visit): Promise<unknown> =>
  page.addInitScript(`{
    const later = setTimeout
    window.setTimeout = (call, ms = 0) => later(call, ms === 0 ? 500 : ms)
  }`)

/** The browser itself reports a failed WebSocket; the page's later request is answered with its problem. */
const unexpected = ({ complaints }: Visit): string[] =>
  complaints.filter((text) => !/WebSocket connection to|\/console\?|Failed to load resource/.test(text))

test(
  'past and new output of the guest is shown, and input reaches it, without a complaint',
  { skip },
  async (t) => {
    const staged = await stage(t)
    const { host, visited } = staged
    host.host.consoles.say(VM, 'login: root\r\n\x1b[32mgreen \x1b[38;2;255;100;0mand\x1b[0m ')
    const tab = await openConsole(visited, VM)
    await tab.isIn('attached')
    await tab.shows('login: root')
    host.host.consoles.say(VM, 'Grüße\r\n')
    await tab.shows('green and Grüße')
    // No click was made: the terminal has the keys from the start.
    await tab.type('ls ü\n')
    await until(
      () => terminalOf(staged).typed,
      (typed) => typed === 'ls ü\r',
    )
    assert.equal(await visited.page.title(), `${VM} · attached`)
    assert.equal(await tab.status.innerText(), 'Attached')
    const { requests, origin } = visited
    for (const path of [`/ui/console/${VM}`, '/ui/console.js', '/ui/console.css'])
      assert.ok(requests.includes(origin + path), path)
    assert.ok(requests.some((url) => url.startsWith(`${origin}/v1/vms/${VM}/console?mode=tty`)))
    assert.deepEqual(foreign(visited), [])
    assert.deepEqual(visited.complaints, [])
  },
)

test('the window of the terminal follows that of the page', { skip }, async (t) => {
  const staged = await stage(t)
  const { page } = staged.visited
  const tab = await openConsole(staged.visited, VM)
  for (const viewport of [WIDE, NARROW, WIDE]) {
    await page.setViewportSize(viewport)
    await until(
      async () => [await tab.size(), terminalOf(staged).window] as const,
      ([[cols, rows], window]) =>
        window.cols === cols &&
        window.rows === rows &&
        cols * 6 < viewport.width &&
        viewport.width < cols * 11,
    )
    assert.ok(await fitsItsWindow(page))
    const last = await page.locator('.xterm-rows > div').last().boundingBox()
    assert.ok(last !== null && last.y + last.height <= viewport.height, 'the last row is seen whole')
  }
  assert.deepEqual(staged.visited.complaints, [])
})

test(
  'over a restart of the daemon the page continues where it was, and draws nothing twice',
  { skip },
  async (t) => {
    const staged = await stage(t)
    const { host, visited } = staged
    host.host.consoles.say(VM, 'before;')
    const tab = await openConsole(visited, VM)
    await tab.shows('before;')
    await host.close(0)
    await tab.isIn('away')
    // The browser may first report that a connection was cut off at once.
    await until(
      () => tab.status.innerText(),
      (text) => /daemon.*typing is off/.test(text),
    )
    assert.equal(await visited.page.title(), `${VM} · reconnecting`)
    host.host.consoles.say(VM, 'meanwhile;')
    await host.reopen()
    await tab.isIn('attached')
    host.host.consoles.say(VM, 'after;')
    await tab.shows('after;')
    assert.deepEqual(await tab.lines(1), ['before;meanwhile;after;'])
    await tab.type('x')
    await until(
      () => terminalOf(staged).typed,
      (typed) => typed === 'x',
    )
    assert.deepEqual(unexpected(visited), [])
  },
)

test('output that is gone when the daemon is back is reported in its place', { skip }, async (t) => {
  const { host, visited } = await stage(t)
  host.host.consoles.say(VM, 'before')
  const tab = await openConsole(visited, VM)
  await tab.shows('before')
  await host.close(0)
  await tab.isIn('away')
  // All in one line of the screen.
  host.host.consoles.say(VM, '.\r'.repeat(limits.consoleHistoryBytes / 2 + 500))
  host.host.consoles.say(VM, '\r\nthe end')
  await host.reopen()
  await tab.shows('the end')
  assert.deepEqual(await tab.lines(4), ['before', '1009 bytes of output are missing here', '.', 'the end'])
})

test('the page waits for a VM that stops, and marks its next session', { skip }, async (t) => {
  const staged = await stage(t)
  const { host, visited } = staged
  host.host.consoles.say(VM, 'zero\r\nthe first')
  const tab = await openConsole(visited, VM)
  await tab.shows('the first')
  await host.host.consoles.endSession(VM)
  await tab.isIn('waiting')
  assert.equal(await visited.page.title(), `${VM} · not running here`)
  await tab.type('lost')
  await host.host.consoles.ensureMaster(VM)
  host.host.consoles.say(VM, 'the second')
  await tab.shows('the second')
  assert.deepEqual(await tab.lines(4), ['zero', 'the first', 'a new session', 'the second'])
  await tab.isIn('attached')
  await tab.type('found')
  await until(
    () => terminalOf(staged).typed,
    (typed) => typed === 'found',
  )
  assert.deepEqual(visited.complaints, [])
})

test('a page that is opened before the VM starts shows it from its first byte', { skip }, async (t) => {
  const { host, visited } = await stage(t, { running: false })
  const tab = await openConsole(visited, VM)
  await tab.isIn('waiting')
  await host.host.consoles.ensureMaster(VM)
  host.host.consoles.say(VM, 'Linux version')
  await tab.shows('Linux version')
  assert.ok(!(await tab.text()).includes('a new session'))
})

test('the page reports a missing VM, and tries again on request', { skip }, async (t) => {
  const staged = await stage(t)
  const { host, visited } = staged
  const tab = await openConsole(visited, 'nobody')
  await tab.isIn('refused')
  assert.equal(await tab.status.innerText(), 'There is no VM nobody on this host')
  // No empty terminal looks like a guest that says nothing.
  await visited.page.getByRole('heading', { name: 'There is no VM nobody on this host' }).waitFor()
  assert.ok(await visited.page.locator('#terminal').isHidden())
  const ways = visited.page.getByRole('link', { name: 'All VMs' })
  assert.deepEqual(await Promise.all([0, 1].map((way) => ways.nth(way).getAttribute('href'))), [
    '/ui/',
    '/ui/',
  ])
  assert.equal(await visited.page.title(), 'nobody · refused')
  await host.call({
    method: 'PUT',
    path: '/v1/vms/nobody',
    body: createBody({ network: { ipv4_address: '192.0.2.11' } }),
  })
  await host.host.consoles.ensureMaster('nobody' as VmId)
  await visited.page.getByRole('button', { name: 'Connect again' }).click()
  await tab.isIn('attached')
  assert.ok(await visited.page.getByRole('button', { name: 'Connect again' }).isHidden())
  assert.ok(await visited.page.locator('#notice').isHidden())
  const [cols = 0, rows = 0] = await tab.size()
  assert.ok(cols > 100 && rows > 20, 'the terminal has its size again')
  assert.deepEqual(unexpected(visited), [])
})

test('terminal queries in old history are not answered into the guest', { skip }, async (t) => {
  const staged = await stage(t)
  const { host, visited } = staged
  host.host.consoles.say(VM, '\x1b[6n\x1b[c\x1b]11;?\x07asked')
  const tab = await openConsole(visited, VM)
  await tab.shows('asked')
  await tab.isIn('attached')
  // A new query is answered; its answer comes after all other input.
  host.host.consoles.say(VM, '\r\n\x1b[5n')
  await until(
    () => terminalOf(staged).typed,
    (typed) => typed === '\x1b[0n',
  )
})

test(
  'a guest that writes faster than the page can draw costs it bounded memory, and its newest output is shown',
  { skip },
  async (t) => {
    const { host, visited } = await stage(t)
    const { page } = visited
    await drawSlowly(visited)
    const tab = await openConsole(visited, VM)
    await tab.isIn('attached')
    await until(
      () => {
        host.host.consoles.say(VM, SLOW_PIECE)
        return page.locator('body').getAttribute('data-state')
      },
      (state) => state === 'behind',
      60_000,
    )
    host.host.consoles.say(VM, '\r\nthe last line')
    await tab.shows('the last line', 60_000)
    await tab.isIn('attached')
    assert.deepEqual(visited.complaints, [])
  },
)

test('a guest cannot make the page send requests, open anything or run anything', { skip }, async (t) => {
  const { host, visited } = await stage(t)
  const tab = await openConsole(visited, VM)
  await tab.isIn('attached')
  host.host.consoles.say(
    VM,
    '<img src=x onerror=alert(1)>\r\n\x1b]8;;https://images.example.net/\x07link\x1b]8;;\x07\r\n\x1b]2;Bank\x07\x1b[21tdone',
  )
  await tab.shows('<img src=x onerror=alert(1)>')
  await tab.shows('done')
  const asked: string[] = []
  visited.page.on('dialog', (dialog) => {
    asked.push(dialog.message())
    void dialog.dismiss()
  })
  await visited.page.getByText('link').hover({ force: true })
  await visited.page.mouse.down()
  await visited.page.mouse.up()
  assert.deepEqual(asked, [])
  assert.equal(visited.page.context().pages().length, 1)
  assert.equal(await visited.page.title(), `${VM} · attached`)
  assert.deepEqual(foreign(visited), [])
  assert.deepEqual(visited.complaints, [])
})

test('Shift+F6 leads out of the terminal to the controls, and SSH is one of them', { skip }, async (t) => {
  const staged = await stage(t)
  const { page } = staged.visited
  const tab = await openConsole(staged.visited, VM)
  await tab.isIn('attached')
  const hint = page.getByText('Shift+F6 leaves the terminal')
  assert.ok(await hint.isVisible())
  await page.keyboard.press('Shift+F6')
  assert.ok(!(await hint.isVisible()))
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await page.waitForURL(/\?mode=ssh&user=root$/)
  assert.equal(terminalOf(staged).typed, '')
})

test('Tab leads out of a terminal that takes no keys', { skip }, async (t) => {
  const { host, visited } = await stage(t)
  const tab = await openConsole(visited, VM)
  await tab.isIn('attached')
  await host.host.consoles.endSession(VM)
  await tab.isIn('waiting')
  await visited.page.keyboard.press('Shift+Tab')
  assert.equal(await visited.page.evaluate('document.activeElement.id'), 'spoken')
})

test(
  'over SSH the page shows a shell and its end; another one is opened only on request',
  { skip },
  async (t) => {
    const { visited, guest } = await sshStage(t)
    const tab = await openConsole(visited, VM, '?mode=ssh&user=root')
    await tab.isIn('attached')
    const shell = guest.shells.at(-1)
    assert.ok(shell)
    shell.say('root@web-1:~# ')
    await tab.shows('root@web-1:~#')
    await tab.type('exit 3\n')
    await until(
      () => shell.input.toString(),
      (typed) => typed === 'exit 3\r',
    )
    const [cols, rows] = await tab.size()
    assert.deepEqual(shell.sizes.at(-1), { cols, rows })
    shell.end({ kind: 'exited', status: 3 })
    await tab.isIn('ended')
    assert.equal(await tab.status.innerText(), 'The shell has ended: exit status 3')
    assert.equal(guest.shells.length, 1)
    // The focus is at “Connect again”.
    await visited.page.keyboard.press('Enter')
    await tab.isIn('attached')
    assert.equal(guest.shells.length, 2)
    assert.deepEqual(visited.complaints, [])
  },
)

test(
  'a shell that writes faster than the page can draw waits, takes Ctrl+C meanwhile, and lives on',
  { skip },
  async (t) => {
    const { visited, guest } = await sshStage(t)
    await drawSlowly(visited)
    const tab = await openConsole(visited, VM, '?mode=ssh')
    await tab.isIn('attached')
    const shell = guest.shells.at(-1)
    assert.ok(shell)
    for (let said = 0; said < 64; said += 1) shell.say(SLOW_PIECE)
    await tab.isIn('behind', 60_000)
    await visited.page.keyboard.press('Control+C')
    await until(
      () => shell.input.toString(),
      (typed) => typed === '\x03',
    )
    shell.say('\r\nthe last line')
    await tab.shows('the last line', 120_000)
    await tab.isIn('attached', 60_000)
    assert.ok(!shell.isClosed)
    assert.equal(guest.shells.length, 1)
    assert.deepEqual(visited.complaints, [])
  },
)

test(
  'a changed host key of a guest is reported, and accepted if the address accepts it',
  { skip },
  async (t) => {
    const { visited, guest } = await sshStage(t)
    const tab = await openConsole(visited, VM, '?mode=ssh')
    await tab.isIn('attached')
    guest.hostKey = fakeHostKey(2)
    await visited.page.reload()
    await tab.isIn('refused')
    assert.match(await tab.status.innerText(), new RegExp(`accept_host_key=${fakeHostKey(2)}`))
    await openConsole(visited, VM, `?mode=ssh&accept_host_key=${fakeHostKey(2)}`)
    await tab.isIn('attached')
    assert.deepEqual(unexpected(visited), [])
  },
)

test('a shell that cannot be had is explained in the place of the terminal', { skip }, async (t) => {
  const { visited } = await sshStage(t)
  const { page } = visited
  const tab = await openConsole(visited, VM, '?mode=ssh&user=bob')
  await tab.isIn('ended')
  await page.getByRole('heading', { name: /^The guest does not accept the daemon's key/ }).waitFor()
  assert.ok(await page.locator('#terminal').isHidden())
  assert.equal(await page.evaluate('document.activeElement.id'), 'again')
  await openConsole(visited, VM, '?mode=ssh&user=Ro%20ot')
  await tab.isIn('refused')
  await page.getByText('Change the name beside SSH.').waitFor()
  assert.deepEqual(unexpected(visited), [])
})

async function sshStage(t: TestContext): Promise<ConsoleStage & { readonly guest: FakeGuest }> {
  const staged = await stage(t)
  staged.host.store.vms.recordProgress(VM, {
    observed: { state: 'running', sinceMs: 1000 },
    nowMs: 2000,
  })
  return { ...staged, guest: staged.host.guests.guest('192.0.2.10') }
}
