import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import { ensurePages } from '../../tools/page-bundle.ts'
import { assertProblem, createBody, makePki, startControllerHost } from './support/controller-host.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../src/core/ids.ts'
import type { Answer, Pki } from './support/controller-host.ts'

const VM = 'web-1' as VmId

let pki: Pki
before(async () => {
  await ensurePages()
  pki = await makePki()
})

const get = async (t: TestContext, path: string): Promise<Answer> =>
  (await startControllerHost(t, pki)).call({ path })

test('the console page runs scripts of this listener only, and connects to no other', async (t) => {
  const answer = await get(t, '/ui/console/web-1?mode=ssh&user=root')
  assert.equal(answer.status, 200)
  assert.match(answer.headers['content-type'] ?? '', /^text\/html/)
  const policy = String(answer.headers['content-security-policy'])
  for (const directive of ["default-src 'none'", "script-src 'self'", "connect-src 'self'"])
    assert.ok(policy.split('; ').includes(directive), directive)
  assert.doesNotMatch(policy, /https?:|wss?:|unsafe-eval/)
  // The document contains no inline script and no inline event handler.
  assert.doesNotMatch(answer.text, /<script>| on\w+=|https?:/)
})

const SHELL = '/ui/console/web-1?mode=ssh&user=anna%22%3E&accept_host_key=SHA256%3Aabc'

test('a link of another site opens no shell and accepts no host key: the person is asked, without the key', async (t) => {
  const host = await startControllerHost(t, pki)
  for (const site of ['cross-site', 'same-site']) {
    for (const path of [SHELL, `${SHELL}&mode=tty`, SHELL.replace('?', '?mode=tty&')]) {
      const { status, text, headers } = await host.call({ path, headers: { 'sec-fetch-site': site } })
      assert.equal(status, 200)
      assert.equal(headers['cache-control'], 'no-store')
      assert.match(String(headers['content-security-policy']), /default-src 'none'.*frame-ancestors 'none'/)
      assert.doesNotMatch(text, /<script/)
      assert.match(text, /<a href="\/ui\/console\/web-1\?mode=ssh&amp;user=anna%22%3E">/)
      assert.match(text, /to accept a host key\. That was left out/)
      assert.doesNotMatch(text, /anna">|abc/)
    }
  }
})

test('a link of another site opens a serial console, which wakes no VM; a link of this one opens a shell', async (t) => {
  const host = await startControllerHost(t, pki)
  const opens = async (path: string, site?: string): Promise<boolean> => {
    const headers = site === undefined ? {} : { 'sec-fetch-site': site }
    return (await host.call({ path, headers })).text.includes('<script src="/ui/console.js">')
  }
  assert.ok(await opens('/ui/console/web-1', 'cross-site'))
  assert.ok(await opens('/ui/console/web-1?mode=tty&user=root', 'cross-site'))
  for (const site of ['same-origin', 'none', undefined])
    assert.ok(await opens(SHELL, site), site ?? 'none named')
})

test('everything that the page loads is served here, with its type', async (t) => {
  const host = await startControllerHost(t, pki)
  const { text } = await host.call({ path: '/ui/console/web-1' })
  const sources = [...text.matchAll(/(?:src|link rel="stylesheet" href)="(\/[^"]+)"/g)].map(
    ([, source]) => source ?? '',
  )
  assert.deepEqual(sources, ['/ui/console.css', '/ui/console.js'])
  for (const path of sources) {
    const { status, headers } = await host.call({ path })
    assert.equal(status, 200)
    assert.match(headers['content-type'] ?? '', path.endsWith('.js') ? /^text\/javascript/ : /^text\/css/)
    assert.equal(headers['x-content-type-options'], 'nosniff')
  }
})

test('the copied script contains the licence of the terminal', async (t) => {
  assert.match((await get(t, '/ui/console.js')).text, /The xterm\.js authors/)
})

test('the page of an id that no VM can have is refused', async (t) => {
  const answer = await get(t, '/ui/console/Web%201')
  assertProblem(answer, 400, 'invalid_request')
})

test('a browser gets each refusal below /ui as a page in plain words; a program gets the problem', async (t) => {
  const host = await startControllerHost(t, pki)
  const accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
  for (const [path, status, words] of [
    ['/ui/console/NOPE!', 400, /The name in the address must be 1 to 63 lower-case letters/],
    ['/ui/nothing', 404, /There is no such page/],
  ] as const) {
    const page = await host.call({ path, headers: { accept } })
    assert.equal(page.status, status)
    assert.match(page.headers['content-type'] ?? '', /^text\/html/)
    assert.match(String(page.headers['content-security-policy']), /default-src 'none'/)
    assert.equal(page.headers['vary'], 'accept')
    assert.match(page.text, words)
    assert.match(page.text, /<a href="\/ui\/">Start page<\/a>/)
    assert.equal((await host.call({ path })).json.status, status)
  }
  // A path outside the pages stays a problem.
  assertProblem(await host.call({ path: '/v1/vms/nothing', headers: { accept } }), 404, 'not_found')
})

test('the page is the same for an unknown VM: it reports that when it connects', async (t) => {
  const host = await startControllerHost(t, pki)
  assert.equal((await host.call({ path: '/v1/vms/nobody' })).status, 404)
  assert.equal((await host.call({ path: '/ui/console/nobody' })).status, 200)
})

test('a plain request gets the reason of a refused upgrade, because a page cannot see it; this costs no place', async (t) => {
  const host = await startControllerHost(t, pki)
  const path = '/v1/vms/web-1/console?mode=tty'
  const ask = (): Promise<Answer> => host.call({ path })
  assertProblem(await ask(), 404, 'not_found')
  await host.call({ method: 'PUT', path: '/v1/vms/web-1', body: createBody() })
  assertProblem(await ask(), 409, 'vm_not_running')
  await host.host.consoles.ensureMaster(VM)
  for (let i = 0; i <= limits.consoleViewersMax; i++) assertProblem(await ask(), 426, 'upgrade_required')
  assert.equal(host.hub.viewers(VM), 0)
  for (let i = 0; i < limits.consoleViewersMax; i++) assert.ok(host.hub.reserve(VM, 'controller'))
  assertProblem(await ask(), 429, 'console_viewers_full')
})
