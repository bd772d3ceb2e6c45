/** Calls the maintainer scripts as dpkg does, in a folder instead of a host, and looks at the daemon. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { checkout } from '../../tools/paths.ts'
import type { TestContext } from 'node:test'

const UNITS = ['vmhostd.service', 'vmhost.slice'] as const

/** Stand-ins for programs of systemd and Debian. `daemon` and `machines` are files that exist while these run. */
const PROGRAMS = {
  systemctl: `
    case $* in
      *'is-active vmhost-*.service') [ -e machines ] ;;
      *'is-active vmhostd.service') if [ -e daemon ]; then echo active; else echo inactive; exit 3; fi ;;
    esac`,
  'deb-systemd-helper': `
    case $* in *was-enabled*) [ ! -e disabled ] ;; esac`,
  'deb-systemd-invoke': `
    case $1 in
      stop) rm -f daemon; [ ! -e late ] || mv late machines ;;
      start) [ -e disabled ] || touch daemon ;;
      try-restart) [ ! -e daemon ] || touch restarted ;;
    esac`,
}

/** A host with a daemon that is set up, enabled and running. */
function packageHost(t: TestContext) {
  const root = mkdtempSync(join(tmpdir(), 'vmhostd-scripts-'))
  t.after(() => rmSync(root, { recursive: true }))
  const inRoot = (name: string): string => join(root, name)
  for (const folder of ['bin', 'run/systemd/system', 'etc/systemd/system', 'etc/vmhostd'])
    mkdirSync(inRoot(folder), { recursive: true })
  for (const [name, text] of Object.entries(PROGRAMS)) {
    writeFileSync(inRoot(`bin/${name}`), `#!/bin/sh\n${text}\n`)
    chmodSync(inRoot(`bin/${name}`), 0o755)
  }
  for (const name of [
    ...UNITS.map((unit) => `etc/systemd/system/${unit}`),
    'etc/vmhostd/config.toml',
    'daemon',
  ])
    writeFileSync(inRoot(name), '')

  const call = (script: string, ...args: readonly string[]) => {
    const text = readFileSync(join(checkout, 'packaging', script), 'utf8')
    // Only the root differs from that of a host.
    const moved = text.replaceAll(/(?<=[\s"'=>])\/(?=(?:etc|run|usr|var)\/)/g, `${root}/`)
    const env = { ...process.env, PATH: `${inRoot('bin')}:${process.env['PATH']}` }
    const { status, stdout } = spawnSync('sh', ['-c', moved, script, ...args], {
      cwd: root,
      encoding: 'utf8',
      env,
    })
    return { succeeded: status === 0, said: stdout }
  }
  return {
    call,
    has: (name: string): boolean => existsSync(inRoot(name)),
    make: (name: string): void => writeFileSync(inRoot(name), ''),
    /** Lets each copy to this place fail. */
    obstruct: (name: string) => mkdirSync(inRoot(`${name}/${UNITS[0]}`), { recursive: true }),
    lose: (name: string): void => rmSync(inRoot(name)),
    runs: (): boolean => existsSync(inRoot('daemon')),
    remove: (): boolean => {
      if (call('prerm', 'remove').succeeded) return call('postrm', 'remove').succeeded
      assert.ok(call('postinst', 'abort-remove').succeeded)
      return false
    },
    install: (earlier: string): string => {
      assert.ok(call('preinst', 'install', ...(earlier === '' ? [] : [earlier])).succeeded)
      return call('postinst', 'configure', earlier).said
    },
    upgrade: (): string => {
      assert.ok(call('prerm', 'upgrade', '1.1').succeeded)
      assert.ok(call('preinst', 'upgrade', '1.0').succeeded)
      return call('postinst', 'configure', '1.0').said
    },
  }
}

for (const purged of [false, true]) {
  test(`an installation after a ${purged ? 'purge' : 'removal'} starts the daemon that ran before`, (t) => {
    const host = packageHost(t)
    assert.ok(host.remove())
    assert.equal(host.runs(), false)
    if (purged) assert.ok(host.call('postrm', 'purge').succeeded)
    assert.equal(host.install(purged ? '' : '1.0'), '')
    assert.equal(host.runs(), true)
    host.lose('daemon')
    host.upgrade()
    assert.equal(host.runs(), false, 'the removal counts once')
  })
}

test('an installation after a removal leaves a daemon alone that was stopped or disabled before, and says so', (t) => {
  const stopped = packageHost(t)
  stopped.lose('daemon')
  assert.ok(stopped.remove())
  assert.match(stopped.install('1.0'), /systemctl start vmhostd/)
  assert.equal(stopped.runs(), false)
  const disabled = packageHost(t)
  disabled.make('disabled')
  assert.ok(disabled.remove())
  assert.match(disabled.install('1.0'), /systemctl start vmhostd/)
  assert.equal(disabled.runs(), false)
})

test('an upgrade restarts a daemon that runs, and does not start one that was stopped', (t) => {
  const host = packageHost(t)
  assert.equal(host.upgrade(), '')
  assert.ok(host.has('restarted'))
  host.lose('daemon')
  assert.match(host.upgrade(), /systemctl start vmhostd/)
  assert.equal(host.runs(), false)
})

test('the first installation names the set-up, and starts nothing', (t) => {
  const host = packageHost(t)
  host.lose('daemon')
  host.lose('etc/vmhostd/config.toml')
  assert.match(host.install(''), /vmhostd setup/)
  assert.equal(host.runs(), false)
})

test('a removal that finds no room in /run leaves the daemon running', (t) => {
  const host = packageHost(t)
  host.make('machines')
  host.obstruct('run/systemd/system')
  assert.equal(host.call('prerm', 'remove').succeeded, false)
  assert.equal(host.runs(), true, 'it was stopped before what can fail')
})

test('a removal that dpkg gives up starts the daemon again, unless it was stopped before', (t) => {
  const giveUp = ({ call }: ReturnType<typeof packageHost>): void => {
    assert.ok(call('prerm', 'remove', 'in-favour', 'other', '1.0').succeeded)
    assert.ok(call('postinst', 'abort-remove', 'in-favour', 'other', '1.0').succeeded)
  }
  const host = packageHost(t)
  giveUp(host)
  assert.equal(host.runs(), true)
  host.lose('daemon')
  giveUp(host)
  assert.equal(host.runs(), false)
})

for (const [machines, file] of [
  ['that run', 'machines'],
  ['of which one was started just before the daemon stopped', 'late'],
  ['of which none runs', 'none'],
] as const) {
  test(`a removal on a host with machines ${machines} ${file === 'none' ? 'leaves nothing in /run' : 'leaves the units in /run'}`, (t) => {
    const host = packageHost(t)
    host.make(file)
    assert.ok(host.remove())
    for (const unit of UNITS) assert.equal(host.has(`run/systemd/system/${unit}`), file !== 'none', unit)
    host.install('1.0')
    for (const unit of UNITS) assert.equal(host.has(`run/systemd/system/${unit}`), false, unit)
  })
}
