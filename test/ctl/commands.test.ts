import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { createVm } from '../../src/commands/vm/create-vm.ts'
import { limits } from '../../src/config/limits.ts'
import { createRequest } from '../command-stage.ts'
import { MIB } from '../../src/lib/byte-units.ts'
import { unitSpecOf } from '../fakes/unit-spec.ts'
import { createBody, makePki, SHA } from '../daemon/support/controller-host.ts'
import { ctl, startCtlStage } from './support/ctl-stage.ts'
import { create, settle } from './support/vms.ts'
import type { TestContext } from 'node:test'
import type { Generation, Sha256, VmId } from '../../src/core/ids.ts'
import type { Pki } from '../daemon/support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'ctl-'))
  t.after(() => rmSync(path, { recursive: true }))
  return path
}

test('a created VM follows the options, with defaults for the rest', async (t) => {
  const stage = await startCtlStage(t, pki)
  const more = '--cpu 1.5 --memory 1G --ipv4 192.0.2.10 --label env=prod --label tier=web --protected'
  const { status, out, err } = await create(stage, 'web-1', more)
  assert.equal(err, '')
  assert.equal(status, 0)
  assert.equal(out, 'web-1: accepted; generation 0 of 1. To wait for it: vmhostctl vm wait web-1\n')
  const { data } = await stage.host.api.GET('/v1/vms/{id}', { params: { path: { id: 'web-1' } } })
  assert.ok(data)
  assert.equal(data.desired.power, 'running')
  assert.deepEqual(data.desired.compute, {
    cpu_millicores: 1500,
    memory_mib: 1024,
    sleep_after_idle_seconds: 0,
  })
  assert.deepEqual(data.desired.disk, { size_mib: 2048 })
  assert.equal(data.desired.network?.ipv4_address, '192.0.2.10')
  assert.deepEqual(data.labels, { env: 'prod', tier: 'web' })
  assert.equal(data.protected, true)
})

test('a repeated creation changes nothing and says so', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  assert.deepEqual(await create(stage, 'web-1'), { status: 0, out: 'web-1: nothing to change\n', err: '' })
})

test('the digest of a local image file is computed', async (t) => {
  const stage = await startCtlStage(t, pki)
  const path = join(folder(t), 'vmlinuz')
  writeFileSync(path, 'a kernel')
  const sha256 = createHash('sha256').update('a kernel').digest('hex')
  const line = `vm create web-1 --rootfs https://i.example/root#sha256=${SHA} --kernel ${path} --json`
  const { status, out, err } = await stage.run(line)
  assert.equal(status, 0, err)
  assert.equal(JSON.parse(out).desired.image.kernel.sha256, sha256)
  const { sources } = stage.host.store.vms.inputs('web-1' as VmId)
  assert.equal(sources.get(sha256 as Sha256)?.url.reveal(), `file://${path}`)
})

test('a JSON file or standard input is the whole request, and options override it', async (t) => {
  const stage = await startCtlStage(t, pki)
  const path = join(folder(t), 'spec.json')
  const spec = createBody({ labels: { env: 'prod' } })
  writeFileSync(path, JSON.stringify(spec))
  const given = await stage.run(`vm create web-1 --file ${path} --ipv4 192.0.2.11 --label tier=web --json`)
  assert.equal(given.status, 0, given.err)
  const vm = JSON.parse(given.out)
  assert.equal(vm.desired.network.ipv4_address, '192.0.2.11')
  assert.equal(vm.desired.network.ipv6_address, '2001:db8::10')
  assert.deepEqual(vm.labels, { env: 'prod', tier: 'web' })
  const readStdin = async () => JSON.stringify({ ...spec, network: undefined })
  const piped = await stage.run('vm create web-2 --file -', { shell: { readStdin } })
  assert.equal(piped.status, 0, piped.err)
})

test('keys and user data come from files, and a private key is never sent', async (t) => {
  const stage = await startCtlStage(t, pki)
  const directory = folder(t)
  const file = (name: string, text: string): string => {
    writeFileSync(join(directory, name), text)
    return join(directory, name)
  }
  const keys = file('id.pub', '# mine\nssh-ed25519 AAAA me\n\nssh-ed25519 AAAAB you\n')
  const data = file('user-data', '#cloud-config\n')
  const taken = await create(stage, 'web-1', `--ssh-key ${keys} --user-data ${data}`)
  assert.equal(taken.status, 0, taken.err)
  const inputs = stage.host.store.vms.inputs('web-1' as VmId)
  assert.deepEqual(inputs.sshAuthorizedKeys, ['ssh-ed25519 AAAA me', 'ssh-ed25519 AAAAB you'])
  assert.equal(inputs.userData, '#cloud-config\n')
  assert.doesNotMatch(taken.err, /warning/)
  const ignored = await create(stage, 'web-3', `--user-data ${file('release', 'ID=debian\n')}`)
  assert.equal(ignored.status, 0)
  assert.match(ignored.err, /^warning: web-3: the user data begins with none .*ignore it silently\n/)
  const forPrograms = await create(stage, 'web-4', `--user-data ${file('other', 'ID=debian\n')} --json`)
  assert.deepEqual([forPrograms.status, forPrograms.err], [0, ''])
  const secret = file('id', '-----BEGIN OPENSSH PRIVATE KEY-----\n')
  const refused = await create(stage, 'web-2', `--ssh-key ${secret}`)
  assert.equal(refused.status, 2)
  assert.match(refused.err, /private key/)
})

test('the list is an aligned table for people and the API’s items for programs', async (t) => {
  const stage = await startCtlStage(t, pki)
  assert.match((await stage.run('vm ls')).out, /^no VMs; vmhostctl vm create --help/)
  await create(
    stage,
    'web-1',
    '--cpu 1.5 --memory 512M --ipv4 192.0.2.10 --ipv6 2001:db8::10 --ipv6-prefix 2001:db8:1::/64 --label env=prod',
  )
  await create(stage, 'a', '--power stopped --disk 10G')
  settle(stage, 'web-1')
  stage.host.store.vms.recordProgress('a' as VmId, {
    observed: {
      state: 'failed',
      sinceMs: 1,
      fault: {
        code: 'storage_full',
        step: 'storage.ensure-disk',
        message: 'cloning the image: no space left',
        generation: 1 as Generation,
        sinceMs: 1,
        attempt: 1,
        nextAttemptAtMs: 2,
      },
    },
    nowMs: 1,
  })
  const { status, out } = await stage.run('vm ls')
  assert.equal(status, 0)
  assert.equal(
    out,
    [
      'NAME   STATE    GENERATION  CPU  MEMORY   DISK    SLEEP  ADDRESSES                WHY',
      'a      failed   0 of 1      1    512 MiB  10 GiB  -      -                        no space left (cloning the image), in storage.ensure-disk',
      'web-1  running  1           1.5  512 MiB  2 GiB   -      192.0.2.10 2001:db8::10  -',
      '',
    ].join('\n'),
  )
  const wide = (await stage.run('vm ls --wide')).out.split('\n')
  assert.match(wide[0] ?? '', / {2}ADDRESSES +MONITOR +LABELS +WHY$/)
  assert.match(wide[2] ?? '', /^web-1 .* 192\.0\.2\.10 2001:db8::10 +qemu +env=prod +-$/)
  const json = JSON.parse((await stage.run('vm ls --json')).out)
  assert.deepEqual(
    json.items.map(({ id }: { id: string }) => id),
    ['a', 'web-1'],
  )
  assert.match((await stage.run('vm ls --label env=prod')).out, /^NAME.*\nweb-1 .*\n$/)
  assert.match((await stage.run('vm ls --state failed')).out, /^NAME.*\na .*\n$/)
  const nothing = await stage.run('vm ls --state paused --label env=test')
  assert.equal(nothing.out, 'no VM matches --label env=test --state paused\n')
  const snapshots = await stage.run('snapshot ls --vm nope')
  assert.equal(snapshots.out, 'no snapshot matches --vm nope; there is no VM nope on this host either\n')
  assert.equal((await stage.run('snapshot ls --vm a')).out, 'no snapshot matches --vm a\n')
})

test('a list covers all pages', async (t) => {
  const count = limits.listItemsDefault + 1
  const stage = await startCtlStage(t, pki, { userIds: count })
  for (let index = 0; index < count; index += 1) {
    const { network: _, ...request } = createRequest()
    assert.ok(createVm(stage.host.context, `vm-${index}` as VmId, request).ok)
  }
  const { out } = await stage.run('vm ls --json')
  assert.equal(JSON.parse(out).items.length, count)
})

test('power commands move a VM through its states', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  const power = async (): Promise<string | undefined> =>
    stage.host.store.vms.get('web-1' as VmId)?.desired.power
  for (const [verb, state] of [
    ['pause', 'paused'],
    ['resume', 'running'],
    ['stop', 'stopped'],
    ['start', 'running'],
  ] as const) {
    const { status, err } = await stage.run(`vm ${verb} web-1`)
    assert.equal(status, 0, err)
    assert.equal(await power(), state)
  }
})

test('each of several VMs is tried, and the worst status is the exit status', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'a')
  await create(stage, 'c')
  const { status, out, err } = await stage.run('vm stop a b c')
  assert.equal(status, 1)
  assert.match(out, /^a: accepted.*\nc: accepted.*\n$/)
  assert.match(err, /there is no VM b on this host/)
})

test('a resize changes the given values and keeps the rest', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1', '--cpu 2 --memory 1G --disk 4G --ipv4 192.0.2.10 --power stopped')
  settle(stage, 'web-1')
  const { status, out, err } = await stage.run(
    'vm resize web-1 --memory 2G --disk 8G --sleep-after 10m --json',
  )
  assert.equal(status, 0, err)
  const { desired } = JSON.parse(out)
  assert.deepEqual(desired.compute, { cpu_millicores: 2000, memory_mib: 2048, sleep_after_idle_seconds: 600 })
  assert.equal(desired.disk.size_mib, 8192)
  const nothing = await stage.run('vm resize web-1')
  assert.equal(nothing.status, 2)
  assert.match(nothing.err, /nothing to change/)
})

test('a change of the network keeps omitted values, and none or null removes a value', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1', '--ipv4 192.0.2.10 --ipv6 2001:db8::10 --power stopped')
  settle(stage, 'web-1')
  const file = join(folder(t), 'network.json')
  writeFileSync(
    file,
    JSON.stringify({ bandwidth: { receive_mbit_per_second: 100 }, firewall: { inbound: [] } }),
  )
  const network = async (line: string): Promise<unknown> => {
    const { status, out, err } = await stage.run(`vm network web-1 ${line} --json`)
    assert.equal(status, 0, err)
    const { mac_address: _, ...rest } = JSON.parse(out).desired.network
    return rest
  }
  const limited = { bandwidth: { receive_mbit_per_second: 100 }, firewall: { inbound: [] } }
  assert.deepEqual(await network(`--ipv6 none --file ${file}`), { ipv4_address: '192.0.2.10', ...limited })
  assert.deepEqual(await network('--ipv4 192.0.2.11'), { ipv4_address: '192.0.2.11', ...limited })
  writeFileSync(file, '{"ipv4_address": "192.0.2.12"}')
  assert.deepEqual(await network(`--ipv4 192.0.2.13 --file ${file}`), {
    ipv4_address: '192.0.2.13',
    ...limited,
  })
  const servers = await network('--name-server 192.0.2.53 --name-server 2001:db8::53')
  assert.deepEqual((servers as { name_servers: string[] }).name_servers, ['192.0.2.53', '2001:db8::53'])
  assert.deepEqual(await network('--name-server none'), { ipv4_address: '192.0.2.13', ...limited })
  await network('--ipv6 2001:db8::10 --ipv6-prefix 2001:db8:1:42::/64')
  assert.match((await stage.run('vm get web-1')).out, /^ *prefix +2001:db8:1:42::\/64$/m)
  const { err } = await stage.run('vm network web-1 --ipv6-prefix 2001:db8::/40')
  assert.match(err, /\(--ipv6-prefix 2001:db8::\/40\) must have a length from 48 to 127/)
  await network('--ipv6 none --ipv6-prefix none')
  writeFileSync(file, '{"firewall": null}')
  const { out } = await stage.run(`vm network web-1 --file ${file} --dry-run`)
  assert.match(out, /\/desired\/network\/firewall: \{"inbound":\[\]\} → nothing/)
  assert.equal((await stage.run('vm network web-1')).status, 2)
})

test('labels and protection change, and omitted ones stay', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1', '--label env=prod --label canary=1 --protected')
  assert.equal((await stage.run('vm set web-1')).status, 2)
  const { status, out, err } = await stage.run('vm set web-1 --label env=test --unlabel canary --json')
  assert.equal(status, 0, err)
  assert.deepEqual(JSON.parse(out).labels, { env: 'test' })
  assert.equal(JSON.parse(out).protected, true)
  await stage.run('vm set web-1 --protected no')
  assert.equal((await stage.run('vm rm web-1')).status, 0)
})

test('a resize of a VM that changes meanwhile uses its current shape', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  const { store } = stage.host
  // Another change follows each look at the VM, up to the third.
  let looks = 0
  const get = store.vms.get.bind(store.vms)
  const nextTurn = (): void => {
    looks += 1
    if (looks <= 3) settle(stage, 'web-1')
  }
  store.vms.get = (id) => {
    const record = get(id)
    queueMicrotask(nextTurn)
    return record
  }
  const { status, err } = await stage.run('vm resize web-1 --disk 4G')
  assert.equal(status, 0, err)
})

test('a dry run shows the changes and the plan, and stores nothing', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  const { status, out, err } = await stage.run('vm stop web-1 --dry-run')
  assert.equal(status, 0, err)
  assert.match(
    out,
    /^web-1: would be accepted, and change\n {2}\/desired\/power: "running" → "stopped"\n\nThe host would then:\n {2}\w/,
  )
  assert.equal(stage.host.store.vms.get('web-1' as VmId)?.desired.power, 'running')
  const again = await stage.run('vm start web-1 --dry-run')
  assert.match(again.out, /^web-1: nothing would change\n/)
})

test('a VM is shown with its desired and observed state', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1', '--ipv4 192.0.2.10 --label env=prod')
  const { out } = await stage.run('vm get web-1')
  assert.match(out, /^web-1\n {2}state +pending for /)
  assert.match(out, /\n {2}generation +0 of 1\n/)
  assert.match(out, /\n {2}network +192\.0\.2\.10, 02:/)
  assert.match(out, /\n {2}labels +env=prod\n/)
  const { out: json } = await stage.run('vm get web-1 --json')
  assert.equal(JSON.parse(json).generations.desired, 1)
})

test("a plan is printed in the daemon's words, and whole for programs", async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  const { data } = await stage.host.api.GET('/v1/vms/{id}/plan', { params: { path: { id: 'web-1' } } })
  const { status, out } = await stage.run('vm plan web-1')
  assert.equal(status, 0)
  assert.equal(out, `${data?.text.trimEnd()}\n`)
  assert.match(out, /^act\n {2}image\.ensure-fetched .* because .*\n {2}\w/)
  assert.deepEqual(JSON.parse((await stage.run('vm plan web-1 --json')).out), data)
})

test('the host is shown with its capacity, the remaining capacity, and its VMs that are not settled', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'a')
  await create(stage, 'b')
  settle(stage, 'a')
  const { status, out, err } = await stage.run('sync')
  assert.equal(status, 0, err)
  assert.equal(
    out
      .replace(/clock .*/, 'clock …')
      .replace(/20\d\d-\d\d-\d\d, the certificate of the (server|controller)\n/, '…\n'),
    [
      'host-1',
      '  vmhostd    1.2.3',
      '  monitor    qemu-system-x86_64 10.0.2, tcg, for new VMs',
      '  because    KVM does not open (ENOENT)',
      '  monitor    firecracker, not offered',
      '  because    firecracker is not a program that can be run',
      '  kernel     6.12.41, x86_64',
      '  clock …',
      '  SSH key    ssh-ed25519 AAAA vmhostd@host-1',
      // The clock of the fake host is ahead.
      '  TLS ended  …',
      '  VMs        2, 1 as desired',
      '  images     0, 0 in use',
      '  snapshots  0',
      '  staging    0 MiB of 1 GiB',
      '  consoles   0 of 0 running VMs protected',
      '',
      'CAPACITY     TOTAL      AVAILABLE  COMMITTED  ALLOCATABLE  LEFT',
      'CPU          4          -          2          -            -',
      'memory       8 GiB      5.86 GiB   1.2 GiB    7 GiB        5.8 GiB',
      'disk pool-1  97.66 GiB  87.89 GiB  5 GiB      96.66 GiB    91.66 GiB',
      '',
      'NOT AS DESIRED  STATE    GENERATION  ERROR',
      'b               pending  0 of 1      -',
      '',
    ].join('\n'),
  )
  const { data } = await stage.host.api.GET('/v1/sync')
  const json = JSON.parse((await stage.run('sync --json')).out)
  assert.deepEqual(json.capacity, data?.capacity)
})

test('the memory that running VMs have is shown beside what they were promised', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'a')
  assert.doesNotMatch((await stage.run('sync')).out, /resident/)
  stage.host.clock.advance(limits.residentAgeMsMax)
  const id = 'a' as VmId
  await stage.host.host.fakeUnits.ensureStarted(id, unitSpecOf(id), new AbortController().signal)
  stage.host.host.fakeUnits.memory.set(id, { anonymousBytes: 100 * MIB, fileBytes: 0 })
  assert.match((await stage.run('sync')).out, /^ {2}resident +100 MiB of the 612 MiB of running VMs$/m)
})

test('VMs that wait for memory are counted, if there are any', async (t) => {
  const stage = await startCtlStage(t, pki)
  stage.host.capacity.sleepRatio = 0
  for (const id of ['a', 'b']) await create(stage, id)
  assert.doesNotMatch((await stage.run('sync')).out, /waiting/)
  const { memoryLoans } = stage.host.store
  for (const [index, id] of (['a', 'b'] as VmId[]).entries()) {
    memoryLoans.lend(id)
    memoryLoans.want(id, 1)
    const words = index === 0 ? '1 VM waits for memory' : '2 VMs wait for memory'
    assert.match((await stage.run('sync')).out, new RegExp(`^ {2}waiting +${words}$`, 'm'))
  }
})

test('the version needs no daemon', async () => {
  assert.deepEqual(await ctl(['version']), { status: 0, out: 'vmhostctl 1.2.3\ncommit abc\n', err: '' })
  assert.deepEqual(JSON.parse((await ctl(['version', '--json'])).out), { version: '1.2.3', commit: 'abc' })
})
