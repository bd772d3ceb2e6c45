/** The sandbox of a unit, as the program in it and systemd see it. */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { atEnd } from '../contract/at-end.ts'
import { web } from '../contract/units.contract.ts'
import { skip } from './in-lab.ts'
import { never, sh, stageOf, untilExit } from './units-stage.ts'

test(
  'a program sees its own files and the programs of the host, and can change little in either',
  { skip },
  async (t) => {
    const { units, shell, said } = stageOf(t)
    const directory = mkdtempSync('/var/tmp/units-test-')
    atEnd(t, () => rmSync(directory, { recursive: true }))
    for (const file of ['kernel', 'disk', 'secret']) writeFileSync(`${directory}/${file}`, `${file} `)
    await sh('chown', '700001', `${directory}/disk`)
    const runDirectory = '/run/vmhostd-test/web-1'
    const command = `
    say() { echo "$1: $(echo $2)"; }
    say user "$(id -u) $(id -g)"
    say root "$(ls /)"
    say etc "$(ls /etc)"
    say "in /proc and /sys" "$(ls -A /proc /sys | grep -v : | wc -w)"
    say dev "$(ls /dev /dev/net)"
    say files "$(ls ${directory}) $(cat ${directory}/kernel)"
    for file in ${directory}/kernel ${directory}/disk ${runDirectory}/socket /new /usr/bin/new; do
      (: >> $file) 2> /dev/null && echo "can write $file"
    done
    unshare --user true 2> /dev/null || echo "no namespaces"
    chmod u+s ${directory}/disk 2> /dev/null || echo "no set-user-id"
    chown "$(id -u)" ${directory}/disk 2>&1 | grep -o "Function not implemented"
    echo end`
    const spec = shell(web, `${command}; ${untilExit}`, {
      devices: ['/dev/net/tun rw'],
      readOnlyPaths: [`${directory}/kernel`],
      readWritePaths: [`${directory}/disk`],
    })
    await units.ensureStarted(web, spec, never)
    assert.equal(
      await said(web, (text) => text.endsWith('end\n')),
      `user: 700001 700001
root: dev etc lib lib64 proc root run sys usr var
etc: ld.so.cache
in /proc and /sys: 0
dev: /dev: net null urandom /dev/net: tun
files: disk kernel kernel
can write ${directory}/disk
can write ${runDirectory}/socket
no namespaces
no set-user-id
Function not implemented
end
`,
    )
  },
)

test('the root of a unit is read-only, and so are the programs in it', { skip }, async (t) => {
  const { units, shell } = stageOf(t)
  await units.ensureStarted(web, shell(web, untilExit), never)
  const state = await units.inspect(web)
  assert.ok(state.kind === 'active')
  const mounts = readFileSync(`/proc/${state.mainPid}/mountinfo`, 'utf8').split('\n')
  // Its mount point and its options (proc_pid_mountinfo(5)).
  const options = new Map(mounts.map((line) => [line.split(' ')[4], line.split(' ')[5]?.split(',') ?? []]))
  for (const path of ['/', '/usr']) assert.ok(options.get(path)?.includes('ro'), path)
})

test('a program that is installed elsewhere runs too', { skip }, async (t) => {
  const { units, shell, said } = stageOf(t)
  const directory = mkdtempSync('/opt/units-test-')
  atEnd(t, () => rmSync(directory, { recursive: true }))
  await sh('cp', '/usr/bin/sh', `${directory}/monitor`)
  const spec = shell(web, '')
  const command = [`${directory}/monitor`, '-c', 'echo here; read -r line'] as const
  await units.ensureStarted(web, { ...spec, command }, never)
  await said(web, (text) => text === 'here\n')
})

test('systemd itself finds little that a unit could do on this host', { skip }, async (t) => {
  const { units, shell } = stageOf(t)
  // With all devices that a monitor gets. docs/sandbox.md explains the points that are left.
  const devices = ['/dev/net/tun rw', '/dev/kvm rw'].filter((device) =>
    existsSync(device.split(' ')[0] ?? ''),
  )
  await units.ensureStarted(web, shell(web, untilExit, { devices }), never)
  // Fails above 2.0 of 10 (systemd-analyze(1), security --threshold=).
  await sh('systemd-analyze', 'security', '--no-pager', '--threshold=20', 'vmhost-web-1.service')
})
