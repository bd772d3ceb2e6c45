/** Damage to a host's network behind the daemon's back. A running guest may notice only lost packets. */
import assert from 'node:assert/strict'
import { renameSync } from 'node:fs'
import { test } from 'node:test'
import { getVm, mutate, settled } from '../../lab/inside/controller.ts'
import { echo } from '../../lab/inside/first-packets.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { crashDaemon, mainPid, sh, unitProperty } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { sharedHost } from './shared-host.ts'

const VM = 'net-faults'
const IPV4 = '192.0.2.40'
const IPV6 = '2001:db8::40'
const NFT = '/usr/sbin/nft'

let pid: string
let device: string
let generations: { desired: number; observed: number }

sharedHost({
  make: async () => {
    await mutate(
      'PUT',
      `/v1/vms/${VM}`,
      guestRequest({ network: { ipv4_address: IPV4, ipv6_address: IPV6 } }),
    )
    const vm = await settled(VM, 'running')
    generations = vm.generations
    await until('the guest answers', answers)
    pid = await mainPid(`vmhost-${VM}`)
    device = /dev (\S+)/.exec(await sh('ip', 'route', 'get', IPV4))?.[1] ?? ''
    assert.match(device, /^vmt/)
  },
})

/** Pings the guest over both families. */
async function answers(): Promise<true> {
  for (const address of [IPV4, IPV6]) await sh('ping', '-c', '1', '-W', '1', address)
  return true
}

/** Checks that the guest answers, in the process it was started in, and that no fault is left. */
async function assertMended(): Promise<void> {
  await until('the guest answers again', answers)
  const vm = await settled(VM, 'running')
  assert.deepEqual(vm.generations, generations, 'no request changed the VM')
  assert.equal(await mainPid(`vmhost-${VM}`), pid, 'the guest was restarted')
}

test('a tap that is deleted is made again, and the running monitor gets it back', async () => {
  await sh('ip', 'link', 'del', device)
  await assertMended()
})

const taken = {
  'an address': {
    take: ['addr', 'del', '169.254.0.1/32'],
    look: ['addr', 'show'],
    back: '169.254.0.1/32',
  },
  'a route': { take: ['-6', 'route', 'del', IPV6], look: ['-6', 'route', 'show'], back: IPV6 },
  'a neighbour': { take: ['neigh', 'del', IPV4], look: ['neigh', 'show', 'nud', 'permanent'], back: IPV4 },
}

for (const [what, { take, look, back }] of Object.entries(taken)) {
  test(`${what} that is removed from the device comes back`, async () => {
    await sh('ip', ...take, 'dev', device)
    await until(`${what} is back`, async () =>
      (await sh('ip', ...look, 'dev', device)).includes(back) ? true : undefined,
    )
    await assertMended()
  })
}

test('a device that is set down comes up again', async () => {
  await sh('ip', 'link', 'set', device, 'down')
  await assertMended()
})

test('a table that is flushed by hand is whole again', async () => {
  await sh('nft', 'flush', 'table', 'inet', 'vmhostd')
  await until('the rules are back', async () =>
    (await sh('nft', 'list', 'table', 'inet', 'vmhostd')).includes(device) ? true : undefined,
  )
  await assertMended()
})

/** Returns what the daemon of a start logs about the table, after a pass that inspected the network. */
async function saidOfTable(start: () => Promise<unknown>): Promise<string> {
  const run = (): Promise<string> => unitProperty('vmhostd', 'InvocationID')
  const before = await run()
  await start()
  const started = await until('another daemon runs', async () => {
    const now = await run()
    return now === '' || now === before ? undefined : now
  })
  // The daemon before may log the end of its last pass after the start was asked for.
  const log = (): Promise<string> => sh('journalctl', '--output=cat', `_SYSTEMD_INVOCATION_ID=${started}`)
  await until('the daemon is back', async () =>
    (await log()).includes('adopted_console_count') ? true : undefined,
  )
  await sh('ip', 'link', 'set', device, 'down')
  await assertMended()
  return (await log())
    .split('\n')
    .filter((line) => line.includes('table inet vmhostd'))
    .join('\n')
}

const handleOfTable = async (): Promise<string | undefined> =>
  /inet vmhostd.* handle (\d+)/.exec(await sh('nft', '-a', 'list', 'tables'))?.[1]

test('a daemon that starts recognises its table, and logs nothing about it', async () => {
  const handle = await handleOfTable()
  assert.equal(await saidOfTable(() => sh('systemctl', 'restart', 'vmhostd')), '')
  assert.equal(await handleOfTable(), handle, 'the table was written again')
})

test('a daemon that starts after a crash writes its table again, and logs no warning', async () => {
  const said = await saidOfTable(crashDaemon)
  assert.match(said, /"level":"info".*has not written the table inet vmhostd yet/)
  assert.doesNotMatch(said, /"level":"(warn|error)"/)
})

test('a table that was altered while no daemon ran causes a warning, and is whole again', async () => {
  const said = await saidOfTable(async () => {
    await sh('systemctl', 'stop', 'vmhostd')
    await sh('nft', 'flush', 'chain', 'inet', 'vmhostd', 'from_guest')
    await sh('systemctl', 'start', 'vmhostd')
  })
  assert.match(said, /"level":"warn".*the table inet vmhostd is altered/)
  assert.match(await sh('nft', 'list', 'chain', 'inet', 'vmhostd', 'from_guest'), /guest_mac/)
})

test('if nft fails, state, fault and log say so, and all recovers when nft works again', async () => {
  renameSync(NFT, `${NFT}.away`)
  try {
    await sh(`${NFT}.away`, 'delete', 'table', 'inet', 'vmhostd')
    const vm = await until('the fault shows', async () => {
      const seen = await getVm(VM)
      return seen.observed.fault?.step === 'network.ensure-firewall' ? seen : undefined
    })
    assert.equal(vm.observed.state, 'failed')
    assert.equal(vm.observed.fault?.code, 'tool_missing')
    assert.match(vm.observed.error ?? '', /^network\.ensure-firewall: .*nft/)
    const line = await until('the log says so', async () => {
      const log = await sh('journalctl', '--unit=vmhostd', '--output=cat', '--lines=200')
      return log
        .split('\n')
        .filter((text) => text.startsWith('{'))
        .map((text) => JSON.parse(text) as Record<string, unknown>)
        .findLast((entry) => entry['message'] === 'pass failed' && entry['vm_id'] === VM)
    })
    assert.equal(line['step'], 'network.ensure-firewall')
    assert.match(String(line['operation_id']), /^op-/)
    for (const address of [IPV4, IPV6]) await echo(address)
  } finally {
    renameSync(`${NFT}.away`, NFT)
  }
  await assertMended()
  assert.match(await sh('nft', 'list', 'table', 'inet', 'vmhostd'), new RegExp(device))
})
