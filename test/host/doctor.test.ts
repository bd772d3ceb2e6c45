/** The check of a host, before its set-up and after it, and with one thing broken at a time. */
import assert from 'node:assert/strict'
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { ready, sh } from '../../lab/inside/shell.ts'
import { atEnd } from '../contract/at-end.ts'
import { sharedHost } from './shared-host.ts'
import type { Finding } from '../../src/core/doctor/finding.ts'

const DROP_IN = '/run/systemd/system/vmhostd.service.d'

sharedHost({ remove: () => rmSync(DROP_IN, { recursive: true, force: true }) })

/** Runs the doctor; its exit status says whether something must be done. */
async function doctor(...args: readonly string[]): Promise<ReadonlyMap<string, Finding>> {
  let status = 0
  const text = await sh('vmhostd', 'doctor', '--json', ...args).catch((error: unknown) => {
    const failed = error as { code: number; stdout: string }
    status = failed.code
    return failed.stdout
  })
  const { findings } = JSON.parse(text) as { findings: readonly Finding[] }
  assert.equal(status, findings.some(({ level }) => level === 'must') ? 1 : 0)
  for (const { level, remedy } of findings) assert.equal(remedy === undefined, level === 'ok')
  return new Map(findings.map((finding) => [finding.check, finding]))
}

const levelOf = async (check: string): Promise<string | undefined> => (await doctor()).get(check)?.level

/** Checks of things that every lab has, after the set-up. The kernel and the clock are those of the machine below. */
const WELL = [
  'kernel',
  'systemd',
  'forwarding ipv4',
  'routes to sleeping guests',
  'firewall',
  'other firewalls',
  'QEMU',
  'configuration',
  'pool',
  'records',
  'disks',
  'room state',
  'room run',
  'memory',
  'SSH key',
  'private keys',
  'listener controller',
  'listener nodes',
  'certificates controller',
  'certificates nodes',
  'certificate server',
  'certificate authority',
  'descriptor store',
]

test('on a host that is set up, what it needs is found, with the daemon running or stopped', async () => {
  for (const verb of ['stop', 'start']) {
    await sh('systemctl', verb, 'vmhostd')
    const findings = await doctor()
    for (const check of WELL)
      assert.equal(findings.get(check)?.level, 'ok', `${check}: ${findings.get(check)?.found}`)
    assert.equal(findings.get('daemon')?.level, verb === 'stop' ? 'should' : 'ok')
  }
  await ready()
})

test('before the set-up, everything else is checked all the same', async () => {
  const findings = await doctor('--config', '/etc/vmhostd/none.toml')
  assert.equal(findings.get('configuration')?.level, 'must')
  assert.equal(findings.get('systemd')?.level, 'ok')
})

test('the table says what to do', async () => {
  const text = await sh('vmhostd', 'doctor', '--config', '/etc/vmhostd/none.toml').catch(
    (error: unknown) => (error as { stdout: string }).stdout,
  )
  assert.match(text, /^MUST +configuration .*\n +→ vmhostd setup/m)
})

/** Moves a file away for the rest of a test. */
function moveAway(t: TestContext, path: string): void {
  renameSync(path, `${path}.away`)
  atEnd(t, async () => renameSync(`${path}.away`, path))
}

test('a kernel that does not forward', async (t) => {
  await sh('sysctl', '-w', 'net.ipv4.ip_forward=0')
  atEnd(t, async () => void (await sh('sysctl', '-w', 'net.ipv4.ip_forward=1')))
  assert.equal(await levelOf('forwarding ipv4'), 'must')
})

test('a host without nft', async (t) => {
  moveAway(t, '/usr/sbin/nft')
  assert.equal(await levelOf('firewall'), 'must')
})

for (const [how, policy, rules] of [
  ['drops what the host forwards', 'drop', []],
  ['ends with a refusal, as that of firewalld', 'accept', [['counter', 'reject']]],
] as const)
  test(`a table that ${how}, until it accepts what is from guests and to them`, async (t) => {
    const chain = 'ip blocks forward'.split(' ')
    await sh('nft', 'add', 'table', 'ip', 'blocks')
    atEnd(t, async () => void (await sh('nft', 'delete', 'table', 'ip', 'blocks')))
    await sh('nft', 'add', 'chain', ...chain, `{ type filter hook forward priority 0; policy ${policy}; }`)
    for (const rule of rules) await sh('nft', 'add', 'rule', ...chain, ...rule)
    const finding = (await doctor()).get('other firewalls')
    assert.equal(finding?.level, 'should')
    assert.match(finding.found, /table ip blocks/)
    for (const way of ['iifname', 'oifname'])
      await sh('nft', 'insert', 'rule', ...chain, way, '"vmt*"', 'accept')
    assert.equal(await levelOf('other firewalls'), 'ok')
  })

test('a pool that is not mounted', async (t) => {
  moveAway(t, '/var/lib/vmhostd/pool/vmhostd-pool.json')
  assert.equal(await levelOf('pool'), 'must')
})

test('records that were moved under the daemon', async (t) => {
  moveAway(t, '/var/lib/vmhostd/vmhostd.db')
  const finding = (await doctor()).get('records')
  assert.equal(finding?.level, 'must')
  assert.match(finding.found, /^vmhostd\.db was removed or replaced under the running daemon/)
})

test('a key that is gone', async (t) => {
  moveAway(t, '/etc/vmhostd/tls/server.key')
  assert.equal(await levelOf('certificates controller'), 'must')
})

test('a unit that would lose the consoles', async (t) => {
  mkdirSync(DROP_IN, { recursive: true })
  writeFileSync(`${DROP_IN}/broken.conf`, '[Service]\nFileDescriptorStorePreserve=no\n')
  await sh('systemctl', 'daemon-reload')
  atEnd(t, async () => {
    rmSync(DROP_IN, { recursive: true })
    await sh('systemctl', 'daemon-reload')
  })
  assert.equal(await levelOf('descriptor store'), 'must')
})
