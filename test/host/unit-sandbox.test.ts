/** The sandbox of a unit, as the program in it and systemd see it. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { limits } from '../../src/config/limits.ts'
import type { VmId } from '../../src/core/ids.ts'
import { atEnd } from '../contract/at-end.ts'
import { web } from '../contract/units.contract.ts'
import { until } from '../contract/until.ts'
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

/** Lists the streams of a unit into the journal: journald keeps a file for each until it has read all of it. */
const streamsOf = async (unit: string): Promise<string> =>
  await sh('sh', '-c', `grep -l 'UNIT=${unit}' /run/systemd/journal/streams/* || true`)

test('a program fills little of the journal, and gives its lines no level', { skip }, async (t) => {
  const { units, shell, said } = stageOf(t)
  // journald counts by the name of a unit, so an earlier run would count too.
  const id = `web-${randomUUID().slice(0, 8)}` as VmId
  atEnd(t, () => units.ensureStopped(id, never))
  const line = '<0>{"level":"audit","msg":"setVmPower"}'
  await units.ensureStarted(id, shell(id, `yes '${line}' | head -n 1000 >&2; echo end; ${untilExit}`), never)
  await said(id, (text) => text.endsWith('end\n'))
  const unit = `vmhost-${id}.service`
  const names = 'LogRateLimitIntervalUSec,LogRateLimitBurst,SyslogLevelPrefix'
  const shown = await sh('systemctl', 'show', `--property=${names}`, unit)
  assert.deepEqual(shown.split('\n').toSorted(), [
    `LogRateLimitBurst=${limits.monitorLogLinesBurst}`,
    'LogRateLimitIntervalUSec=1min',
    'SyslogLevelPrefix=no',
  ])
  await units.ensureStopped(id, never)
  await until(
    () => streamsOf(unit),
    (files) => files === '',
  )
  const fields = '--output-fields=MESSAGE,PRIORITY'
  const entries = (await sh('journalctl', '--output=json', fields, '_TRANSPORT=stdout', `VM_ID=${id}`))
    .split('\n')
    .map((entry) => JSON.parse(entry) as { readonly MESSAGE: string; readonly PRIORITY: string })
  assert.equal(entries[0]?.MESSAGE, line)
  for (const { PRIORITY } of entries) assert.equal(PRIORITY, '6')
  // journald takes a few times as many, by the space that is free (journald.conf(5)).
  const [least, most] = [limits.monitorLogLinesBurst, limits.monitorLogLinesBurst * 10]
  assert.ok(entries.length >= least && entries.length <= most, `${entries.length} lines`)
})
