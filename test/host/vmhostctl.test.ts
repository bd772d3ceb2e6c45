/** vmhostctl as a new user meets it: the package is installed, and only `vmhostd setup` has run. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { text as textOf } from 'node:stream/consumers'
import { test } from 'node:test'
import { remove } from '../../lab/inside/controller.ts'
import { GUEST_IMAGES } from '../../lab/inside/guest.ts'
import { mainPid, ready, sh } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { sharedHost } from './shared-host.ts'
import { story } from './story.ts'

const ADDRESS = '192.0.2.60'
const NAME = 'tour'
const IMAGES = ['--kernel', 'vmlinuz', '--initrd', 'initrd.cpio.gz', '--rootfs', 'rootfs.raw'].map((word) =>
  word.startsWith('--') ? word : `${GUEST_IMAGES}/${word}`,
)

/** Returns the error of a program that failed. */
type Failed = Error & { readonly code: number; readonly stdout: string; readonly stderr: string }

sharedHost()

const ctl = (...args: readonly string[]): Promise<string> => sh('vmhostctl', ...args)

async function refused(...args: readonly string[]): Promise<Failed> {
  try {
    await ctl(...args)
  } catch (error) {
    return error as Failed
  }
  throw new Error(`vmhostctl ${args.join(' ')} was not refused`)
}

test('one executable has both names, and each is its own program', async () => {
  assert.equal(readlinkSync('/usr/bin/vmhostctl'), 'vmhostd')
  assert.match(await ctl('version'), /^vmhostctl \d+\.\d+\.\d+$/m)
  assert.match(await sh('vmhostd', 'version'), /^vmhostd \d+\.\d+\.\d+$/m)
})

test('the profile that setup wrote reaches the daemon without further options', async () => {
  assert.match(await ctl('sync'), /\n {2}vmhostd +\d+\.\d+\.\d+\n/)
})

test('a wait outlives a restart of the daemon, shows the fault, and ends when it is repaired', async () => {
  // A longer image, which the pool does not have yet.
  const image = Buffer.concat([readFileSync(`${GUEST_IMAGES}/rootfs.raw`), Buffer.alloc(4096)])
  const rootfs = `file://${GUEST_IMAGES}/late#sha256=${createHash('sha256').update(image).digest('hex')}`
  // The lab's images are read-only, so a writable copy takes their place.
  const images = mkdtempSync('/var/tmp/images-')
  cpSync(GUEST_IMAGES, images, { recursive: true })
  await sh('mount', '--bind', images, GUEST_IMAGES)
  const shape = ['--rootfs', rootfs, '--memory', '256M', '--disk', '128M']
  const child = spawn('vmhostctl', ['vm', 'create', 'late', ...IMAGES, ...shape, '--wait'])
  const ended = once(child, 'exit')
  let shown = ''
  child.stderr.on('data', (chunk: Buffer) => {
    shown += chunk.toString()
  })
  const out = textOf(child.stdout)
  const shows = (what: string): Promise<true> =>
    until(`the wait shows ${what}`, async () => (shown.includes(what) ? true : undefined))
  try {
    await shows('image_unavailable')
    await sh('systemctl', 'stop', 'vmhostd')
    await shows('no answer, trying again')
    await sh('systemctl', 'start', 'vmhostd')
    writeFileSync(`${images}/late`, image)
    assert.deepEqual(await ended, [0, null], shown)
    assert.equal(await out, 'late: running, generation 1\n')
  } finally {
    child.kill()
    await sh('systemctl', 'start', 'vmhostd')
    await sh('umount', GUEST_IMAGES)
    rmSync(images, { recursive: true })
    await ready()
    await remove('late')
  }
})

story('a VM lives its whole life under vmhostctl', {
  'a VM is created, and waited for until it runs': async () => {
    const shape = ['--memory', '256M', '--disk', '128M', '--ipv4', ADDRESS, '--label', 'env=tour']
    const out = await ctl('vm', 'create', NAME, ...IMAGES, ...shape, '--wait')
    assert.equal(out, `${NAME}: running, generation 1\n`)
    assert.match(
      await ctl('vm', 'ls', '--label', 'env=tour'),
      new RegExp(`^NAME.*\\n${NAME} +running +1 .*${ADDRESS}`),
    )
    await until('the guest answers', async () => {
      await sh('ping', '-c', '1', '-W', '1', ADDRESS)
      return true
    })
  },
  'a running VM grows its disk, keeps its process, and refuses other memory with a message': async () => {
    const pid = await mainPid(`vmhost-${NAME}`)
    const out = await ctl('vm', 'resize', NAME, '--disk', '192M', '--wait')
    assert.match(out, /running, generation 2\n$/)
    assert.equal(await mainPid(`vmhost-${NAME}`), pid)
    const { code, stderr } = await refused('vm', 'resize', NAME, '--memory', '320M')
    assert.equal(code, 1)
    assert.match(stderr, new RegExp(`vmhostctl vm stop ${NAME} --wait, then run the command again`))
  },
  'the VM is stopped, resized, and started with its new shape': async () => {
    assert.match(await ctl('vm', 'stop', NAME, '--wait'), /stopped, generation 3\n$/)
    assert.equal(await mainPid(`vmhost-${NAME}`), '0')
    await ctl('vm', 'resize', NAME, '--memory', '320M', '--wait')
    assert.match(await ctl('vm', 'start', NAME, '--wait'), /running, generation 5\n$/)
    const { observed } = JSON.parse(await ctl('vm', 'get', NAME, '--json')) as {
      observed: { compute: { memory_mib: number }; disk: { size_mib: number } }
    }
    assert.equal(observed.compute.memory_mib, 320)
    assert.equal(observed.disk.size_mib, 192)
  },
  'the VM is paused and resumed, with the same process': async () => {
    const pid = await mainPid(`vmhost-${NAME}`)
    assert.match(await ctl('vm', 'pause', NAME, '--wait'), /paused/)
    assert.match(await ctl('vm', 'resume', NAME, '--wait'), /running/)
    assert.equal(await mainPid(`vmhost-${NAME}`), pid)
  },
  'a stopped VM gets other kernel arguments, a key, and a new disk from its image': async () => {
    const key = '/tmp/tour.pub'
    writeFileSync(
      key,
      'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2YbSXk0PlsXYbqLwH2uVrkZ6ptuQyPIUJxQnZWLk3A tour\n',
    )
    await ctl('vm', 'stop', NAME, '--wait')
    await ctl('vm', 'boot', NAME, '--kernel-arguments', 'tour.changed=1', '--wait')
    await ctl('vm', 'seed', NAME, '--ssh-key', key, '--wait')
    const rebuilt = await ctl('vm', 'rebuild', NAME, `${GUEST_IMAGES}/rootfs.raw`, '--wait')
    assert.match(rebuilt, /stopped, generation \d+\n$/)
    assert.match(await ctl('vm', 'start', NAME, '--wait'), /running/)
    const { desired, observed } = JSON.parse(await ctl('vm', 'get', NAME, '--json')) as {
      desired: { instance: number; image: { rebuild: number; kernel_arguments: string } }
      observed: { rebuild: number; disk: { size_mib: number } }
    }
    assert.deepEqual([desired.instance, desired.image.kernel_arguments], [3, 'tour.changed=1'])
    assert.deepEqual([desired.image.rebuild, observed.rebuild, observed.disk.size_mib], [1, 1, 192])
    rmSync(key)
  },
  'the plan of the VM is shown, and a dry run of another one changes nothing': async () => {
    assert.match(await ctl('vm', 'plan', NAME), /settled/)
    assert.match(
      await ctl('vm', 'stop', NAME, '--dry-run'),
      /\/desired\/power: "running" → "stopped"[^]*unit\.ensure-stopped/,
    )
    assert.match(await ctl('vm', 'wait', NAME, '--timeout', '0'), /running/)
  },
  'a profile copied elsewhere reaches the same daemon, and one without trust does not': async () => {
    const folder = mkdtempSync('/tmp/profile-')
    for (const name of ['ca.crt', 'controller.crt', 'controller.key', 'node.crt', 'node.key']) {
      cpSync(`/etc/vmhostd/tls/${name}`, `${folder}/${name}`)
    }
    const profile = (name: string, changes: readonly (readonly [string, string])[]): string => {
      let text = readFileSync('/etc/vmhostd/vmhostctl.toml', 'utf8').replaceAll('tls/', '')
      for (const [from, to] of changes) text = text.replaceAll(from, to)
      writeFileSync(`${folder}/${name}`, text)
      return `${folder}/${name}`
    }
    assert.match(await ctl('vm', 'ls', '--profile', profile('same', [])), new RegExp(NAME))
    const node = await refused('vm', 'ls', '--profile', profile('node', [['controller.', 'node.']]))
    assert.equal(node.code, 1)
    assert.match(node.stderr, /code forbidden/)
    const untrusted = await refused(
      'vm',
      'ls',
      '--profile',
      profile('ca', [['ca = "ca.crt"', 'ca = "node.crt"']]),
    )
    assert.equal(untrusted.code, 4)
    const away = await refused('vm', 'ls', '--profile', profile('port', [[':9000', ':9']]))
    assert.equal(away.code, 4)
    assert.match(away.stderr, /nothing listens at localhost:9/)
    rmSync(folder, { recursive: true })
  },
  'bash completes the name of the VM': async () => {
    const script = `source /usr/share/bash-completion/completions/vmhostctl
      COMP_WORDS=(vmhostctl vm get '') COMP_CWORD=3; _vmhostctl; echo "\${COMPREPLY[@]}"`
    assert.equal((await sh('bash', '-c', script)).trim(), NAME)
  },
  'the VM is deleted, and nothing of that name is left': async () => {
    assert.equal(await ctl('vm', 'rm', NAME, '--wait'), `${NAME}: gone\n`)
    const { code, stderr } = await refused('vm', 'get', NAME)
    assert.equal(code, 1)
    assert.match(stderr, /vmhostctl vm ls shows the VMs there are/)
  },
})
