/** Small messages of the program: about itself, its arguments, and its changes. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { makePki } from '../daemon/support/controller-host.ts'
import { ctl, startCtlStage } from './support/ctl-stage.ts'
import { create, fail, IMAGES, settle } from './support/vms.ts'
import type { Sha256, VmId } from '../../src/core/ids.ts'
import type { Pki } from '../daemon/support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

test('--version is the command version, and help before a command is its help', async () => {
  assert.equal((await ctl(['--version'])).out, (await ctl(['version'])).out)
  const { out } = await ctl(['vm', 'create', '--help'])
  assert.match(out, /--rootfs/)
  for (const word of ['help', '-h', '--help']) assert.equal((await ctl([word, 'vm', 'create'])).out, out)
})

for (const [given, meant] of [
  ['vm list', 'vm ls'],
  ['vm delete', 'vm rm'],
  ['vm show', 'vm get'],
  ['snapshot remove', 'snapshot rm'],
] as const) {
  test(`"${given}" is answered with "${meant}"`, async () => {
    const { status, err } = await ctl(given.split(' '))
    assert.equal(status, 2)
    assert.match(err, new RegExp(`did you mean vmhostctl ${meant}\\?`))
  })
}

test('a fault in a member of the request names the option behind it, with its value and unit', async (t) => {
  const stage = await startCtlStage(t, pki)
  const { err } = await create(stage, 'web-1', '--memory 10M --mac 01:00:5e:00:00:01')
  assert.match(err, /memory_mib \(--memory 10M, in MiB\) must be between 64/)
  assert.match(err, /mac_address \(--mac 01:00:5e:00:00:01\) must be a unicast MAC/)
})

test('a refused label is reported with its text, and whether its key or its value is wrong', async (t) => {
  const stage = await startCtlStage(t, pki)
  const key = await create(stage, 'web-1', '--label Foo!=x')
  assert.match(key.err, /\/labels\/… \(--label Foo!=x\) must have a key of 1 to 128 ASCII letters/)
  assert.doesNotMatch(key.err, /1 more/)
  const value = await create(stage, 'web-1', '--label tier=x!')
  assert.match(value.err, /\/labels\/tier \(--label tier=x!\) must have a value of at most 63 ASCII letters/)
})

test('a conflict says in which members the requests differ, but not their values', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1', '--ipv4 192.0.2.10')
  const { err } = await create(stage, 'web-1', '--ipv4 192.0.2.11 --disk 9G --label env=prod')
  assert.match(
    err,
    /web-1 was created by a request that differs in disk\.size_mib, labels, network\.ipv4_address: delete/,
  )
  assert.doesNotMatch(err, /192\.0\.2\.10/)
  const more = await create(stage, 'web-1', '--ipv4 192.0.2.10 --ipv6 2001:db8::10 --kernel-arguments quiet')
  assert.match(more.err, /differs in kernel_arguments, network\.ipv6_address: delete/)
  const image = IMAGES.replace(/sha256=\w+$/, `sha256=${'c'.repeat(64)}`)
  const other = await stage.run(`vm create web-1 ${image} --ipv4 192.0.2.10`)
  assert.match(other.err, /differs in image\.kernel: delete/)
})

test('a change that does not involve the host is done when it is answered', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  settle(stage, 'web-1')
  assert.equal((await stage.run('vm set web-1 --label env=prod')).out, 'web-1: changed\n')
})

test('a second stop with grace says when the first one ends', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  settle(stage, 'web-1')
  assert.match((await stage.run('vm stop web-1 --grace 10m')).out, /^web-1: accepted/)
  const hardAtMs = stage.host.store.vms.get('web-1' as never)?.stops.grace?.untilMs ?? assert.fail('no grace')
  const shell = { nowMs: () => hardAtMs - 30_000 }
  const { out } = await stage.run('vm stop web-1 --grace 20m', { shell })
  assert.equal(
    out,
    'web-1: nothing to change; it stops hard in 30 s, unless its guest ends first. ' +
      'To wait for it: vmhostctl vm wait web-1\n',
  )
})

test('a dry run of a creation says whether it has keys and user data, and shows none of them', async (t) => {
  const stage = await startCtlStage(t, pki)
  const folder = mkdtempSync(join(tmpdir(), 'access-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const [key, data] = [join(folder, 'id.pub'), join(folder, 'user-data')]
  writeFileSync(key, 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA me\n')
  writeFileSync(data, '#cloud-config\n')
  const { out, err } = await create(stage, 'web-1', `--ssh-key ${key} --user-data ${data} --dry-run`)
  assert.match(out, /\n {2}and, not shown in any answer: 1 SSH key and user data of 14 bytes\n/, err)
  assert.doesNotMatch(out, /AAAA|cloud-config/)
  const bare = await create(stage, 'web-1', '--dry-run')
  assert.match(bare.out, /not shown in any answer: no SSH key and no user data\n/)
})

test('a dry run of a change of the seed says what it would have, and shows none of it', async (t) => {
  const stage = await startCtlStage(t, pki)
  const folder = mkdtempSync(join(tmpdir(), 'seed-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const key = join(folder, 'id.pub')
  writeFileSync(key, 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA me\n')
  await create(stage, 'web-1')
  const { err } = await stage.run('vm seed web-1')
  assert.match(err, /nothing to change/)
  assert.match((await stage.run(`vm seed web-1 --ssh-key ${key}`)).err, /only while it is stopped/)
  await stage.run('vm stop web-1')
  settle(stage, 'web-1')
  const { out } = await stage.run(`vm seed web-1 --ssh-key ${key} --user-data none --dry-run`)
  assert.match(out, /\n {2}and, not shown in any answer: 1 SSH key and no user data\n/)
  assert.match(out, /\/desired\/instance: nothing → 2\n/)
  assert.doesNotMatch(out, /AAAA/)
  assert.match((await stage.run('vm seed web-1 --ssh-key none')).out, /nothing to change/)
})

test('a rebuild names the image by its digest, and is taken once the VM is stopped', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  const image = `https://i.example/second#sha256=${'c'.repeat(64)}`
  assert.match((await stage.run(`vm rebuild web-1 ${image}`)).err, /only while it is stopped/)
  await stage.run('vm stop web-1')
  settle(stage, 'web-1')
  const dry = await stage.run(`vm rebuild web-1 ${image} --dry-run`)
  assert.match(dry.out, /\/desired\/image\/rootfs\/sha256: .* → "c+"\n/)
  assert.match((await stage.run(`vm rebuild web-1 ${image}`)).out, /^web-1: accepted; generation/)
  assert.equal((await stage.run('vm rebuild web-1 https://i.example/second')).status, 2)
})

test('the image of a rebuild, and those that a VM boots, come from a file or standard input', async (t) => {
  const stage = await startCtlStage(t, pki)
  const folder = mkdtempSync(join(tmpdir(), 'images-'))
  t.after(() => rmSync(folder, { recursive: true }))
  await create(stage, 'web-1')
  await stage.run('vm stop web-1')
  settle(stage, 'web-1')
  const image = (letter: string) => ({
    url: `https://i.example/${letter}?signature=CANARY`,
    sha256: letter.repeat(64),
  })
  const storedUrl = (letter: string): string | undefined => {
    const { sources } = stage.host.store.vms.inputs('web-1' as VmId)
    return sources.get(letter.repeat(64) as Sha256)?.url.reveal()
  }
  const boot = join(folder, 'boot.json')
  writeFileSync(boot, JSON.stringify({ kernel: image('d'), initrd: image('e'), kernel_arguments: 'quiet' }))
  const booted = await stage.run(`vm boot web-1 --file ${boot} --initrd none --json`)
  assert.equal(booted.status, 0, booted.err)
  const { kernel, initrd, kernel_arguments: words } = JSON.parse(booted.out).desired.image
  assert.deepEqual([kernel.sha256, initrd, words], ['d'.repeat(64), undefined, 'quiet'])
  assert.equal(storedUrl('d'), image('d').url)
  settle(stage, 'web-1')
  const shell = { readStdin: async () => JSON.stringify({ rootfs: image('c') }) }
  const rebuilt = await stage.run('vm rebuild web-1 --file -', { shell })
  assert.match(rebuilt.out, /^web-1: accepted; generation/, rebuilt.err)
  assert.equal(storedUrl('c'), image('c').url)
  for (const [line, says] of [
    ['vm rebuild web-1', /it needs ROOTFS or --file\n {2}see vmhostctl vm rebuild --help/],
    ['vm rebuild web-1 /root.img --file -', /only one of ROOTFS and --file can be given/],
    ['vm rebuild web-1 --file /nowhere.json', /--file \/nowhere.json cannot be read/],
    ['vm boot web-1', /nothing to change\n {2}give one of --file, --kernel/],
  ] as const) {
    const { status, err } = await stage.run(line)
    assert.equal(status, 2, line)
    assert.match(err, says)
  }
})

test('a start of a failed VM says that it is tried again now', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  fail(stage, 'web-1')
  const { out } = await stage.run('vm start web-1')
  assert.equal(
    out,
    'web-1: nothing to change; the daemon now tries again what failed: no room, in storage.ensure-disk. ' +
      'To wait for it: vmhostctl vm wait web-1\n',
  )
  assert.deepEqual(stage.host.pokes.at(-1), 'web-1: power running again')
  assert.match((await create(stage, 'web-1')).out, /nothing to change; the daemon keeps trying: no room/)
})

test('the deletion of a missing snapshot says so', async (t) => {
  const stage = await startCtlStage(t, pki)
  assert.deepEqual(await stage.run('snapshot rm nope'), { status: 0, out: 'nope: did not exist\n', err: '' })
})

test('a dry run of a creation has a line for each member, and one of a deletion a line for all', async (t) => {
  const stage = await startCtlStage(t, pki)
  const { out } = await create(stage, 'web-1', '--dry-run')
  assert.match(out, /\n {2}\/desired\/power: nothing → "running"\n/)
  assert.doesNotMatch(out.slice(0, out.indexOf('The host')), /\{/)
  await create(stage, 'web-1')
  assert.match((await stage.run('vm rm web-1 --dry-run')).out, /\n {2}all of it: nothing is left\n/)
})

test('an interrupted wait says that the daemon continues', async (t) => {
  const stage = await startCtlStage(t, pki)
  await stage.run(`vm create web-1 ${IMAGES}`)
  let interrupt = (): void => {}
  let listening = 0
  const onInterrupt = (deliver: () => void) => {
    interrupt = deliver
    listening += 1
    return () => void (listening -= 1)
  }
  const { result, printed } = stage.start('vm wait web-1 --timeout 1', { shell: { onInterrupt } })
  interrupt()
  assert.match(printed(), /vmhostctl: the daemon continues: vmhostctl vm wait web-1 waits again/)
  assert.equal((await result).status, 3)
  assert.equal(listening, 0, 'an interrupt after the wait is not about it')
  const forPrograms = stage.start('vm wait web-1 --timeout 0 --json', { shell: { onInterrupt } })
  interrupt()
  assert.equal(forPrograms.printed(), '')
  await forPrograms.result
})

test('a change of a VM under deletion is refused, with the command that waits for its end', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  await stage.run('vm rm web-1')
  assert.match((await stage.run('vm start web-1')).err, /vmhostctl vm wait web-1 --for gone ends when/)
})
