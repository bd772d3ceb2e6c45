/** The whole life of a VM by the installed daemon, with the bare guest, under each monitor. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { askBare, bareRequest, lifeOf, makeBare, udpEcho } from '../../lab/inside/bare.ts'
import { call, getVm, mutate, remove, setPower, settled } from '../../lab/inside/controller.ts'
import { guestImage } from '../../lab/inside/guest.ts'
import { echo } from '../../lab/inside/first-packets.ts'
import { crashDaemon, mainPid, sh } from '../../lab/inside/shell.ts'
import { asleep, awake, sleepAfter, sleeper } from '../../lab/inside/sleepers.ts'
import { completed, startSnapshot } from '../../lab/inside/snapshots.ts'
import { until } from '../../lab/inside/until.ts'
import { judgeKvm } from '../../src/core/monitor/choose-monitor.ts'
import { tryKvm } from '../../src/host/kvm/try-kvm.ts'
import { skipWithoutBareGuest } from './bare-guest-stage.ts'
import { crashWhenMade, savingFiles } from './crash-at.ts'
import { snapshotStage } from './snapshot-stage.ts'
import { story } from './story.ts'
import { firecracker, skipWithoutFirecracker } from './with-firecracker.ts'

const IDLE_SECONDS = 2
const MEMORY_MIB = 128
const HAMMERED = 100
const IOPS = 40

const stage = snapshotStage()

const monitors = [
  { monitor: 'qemu', skip: skipWithoutBareGuest },
  {
    monitor: 'firecracker',
    skip: skipWithoutBareGuest === false ? skipWithoutFirecracker : skipWithoutBareGuest,
  },
] as const

type Sync = {
  readonly host: {
    readonly monitors: readonly {
      readonly kind: string
      readonly default: boolean
      readonly accelerator: string
    }[]
  }
}

test(
  'a VM that names no monitor gets the one that KVM of this host is good for',
  { skip: skipWithoutBareGuest },
  async () => {
    const { isFast } = judgeKvm(await tryKvm())
    const { host } = (await call('GET', '/v1/sync')).body as unknown as Sync
    const chosen = host.monitors.find((monitor) => monitor.default)
    assert.equal(chosen?.kind, isFast && firecracker !== undefined ? 'firecracker' : 'qemu')
    assert.equal(chosen?.accelerator, isFast ? 'kvm' : 'tcg')
    const one = sleeper('any', 19)
    await makeBare(one)
    assert.equal((await getVm(one.id)).monitor, chosen?.kind)
    await remove(one.id)
  },
)

test(
  'a kernel that Firecracker cannot read is refused in words, before a disk is made',
  { skip: monitors[1].skip },
  async () => {
    const one = sleeper('bzimage', 18)
    const request = bareRequest(one, { monitor: 'firecracker' })
    const image = { rootfs: guestImage('rootfs.raw'), kernel: guestImage('vmlinuz') }
    await mutate('PUT', `/v1/vms/${one.id}`, { ...request, image })
    const { observed } = await until('the VM has failed', async () => {
      const vm = await getVm(one.id)
      return vm.observed.state === 'failed' ? vm : undefined
    })
    assert.match(
      observed.error ?? '',
      /bzImage.*boots only ELF kernels; stop the VM and give it another kernel/,
    )
    assert.equal(observed.disk, undefined)
    await remove(one.id)
  },
)

for (const [index, { monitor, skip }] of monitors.entries()) {
  const one = sleeper(monitor, 20 + index)
  const { id, ipv4, ipv6 } = one
  const isFirecracker = monitor === 'firecracker'
  let life = ''
  /** A packet wakes the guest if it sleeps; input on its console does not. */
  const assertSame = async (): Promise<void> => {
    await udpEcho(ipv4)
    assert.equal(await lifeOf(id, ipv4), life, 'the guest was booted again')
  }
  /**
   * Wakes by a request, because a VM that traffic repeatedly wakes soon after it fell asleep sleeps later and later.
   */
  const wakeByRequest = async (): Promise<void> => {
    const { observed } = await asleep(id)
    await setPower(id, 'running')
    await awake(id, observed.last_wake?.at)
  }

  story(
    `${monitor}: a guest boots, works, changes, and is captured`,
    {
      'it boots, and answers on its console and over both families': async () => {
        await makeBare(one, { monitor, memoryMib: MEMORY_MIB })
        life = await lifeOf(id)
        assert.equal((await getVm(id)).monitor, monitor)
        for (const address of [ipv4, ipv6]) {
          await udpEcho(address)
          await echo(address)
        }
      },
      'it answers nothing while it is paused, and continues': async () => {
        await setPower(id, 'paused')
        await settled(id, 'paused')
        const answer = echo(ipv4)
        await setPower(id, 'running')
        await settled(id, 'running')
        await answer
        await assertSame()
      },
      'its disk is limited while it runs, and the limit is lifted': async () => {
        const hammer = async (): Promise<number> => {
          const startedAt = performance.now()
          await askBare(id, `hammer ${HAMMERED}`, /hammered (\d+)\r\n/)
          return performance.now() - startedAt
        }
        await mutate('PUT', `/v1/vms/${id}/disk`, { size_mib: 64, iops_max: IOPS })
        await settled(id, 'running')
        const limitedMs = await hammer()
        // A bucket may be full at the beginning.
        const leastMs = ((HAMMERED - IOPS) / IOPS) * 1000
        assert.ok(limitedMs > leastMs * 0.9, `${HAMMERED} writes took ${limitedMs.toFixed(0)} ms`)
        await mutate('PUT', `/v1/vms/${id}/disk`, { iops_max: null })
        await settled(id, 'running')
        const freeMs = await hammer()
        assert.ok(
          freeMs < limitedMs,
          `${freeMs.toFixed(0)} ms without a limit, ${limitedMs.toFixed(0)} ms with it`,
        )
      },
      'it sees its disk grow': async () => {
        await mutate('PUT', `/v1/vms/${id}/disk`, { size_mib: 96 })
        await settled(id, 'running')
        assert.equal(await askBare(id, 'size', /size (\d+) sectors/), String(96 * 2048))
      },
      'it is captured with what it has written, and continues': async () => {
        await askBare(id, 'write 100000 captured', /wrote 100000\r\n/)
        await startSnapshot(`bare-${monitor}`, id, await stage.begin(`${monitor}.img.zst`))
        const snapshot = await completed(`bare-${monitor}`)
        // Under Firecracker the guest has an agent.
        assert.equal(snapshot.consistency, isFirecracker ? 'file_system' : 'crash')
        assert.equal(snapshot.size_mib, 96)
        await askBare(id, 'write 1 after', /wrote 1\r\n/)
        await assertSame()
      },
    },
    { skip },
  )

  if (isFirecracker)
    story(
      `${monitor}: a guest ends when it is asked to`,
      {
        'by its agent, although it slept': async () => {
          await makeBare(one, { monitor, memoryMib: MEMORY_MIB, sleepAfterIdleSeconds: IDLE_SECONDS })
          await asleep(id)
          await mutate('PUT', `/v1/vms/${id}/power`, { state: 'stopped', grace_seconds: 60 })
          await settled(id, 'stopped')
          assert.equal((await getVm(id)).observed.last_stop?.how, 'graceful')
        },
        'and boots again as one change': async () => {
          await setPower(id, 'running')
          await settled(id, 'running')
          life = await lifeOf(id)
          await mutate('POST', `/v1/vms/${id}/reboot`, { grace_seconds: 60 })
          await settled(id, 'running')
          assert.equal((await getVm(id)).observed.last_stop?.how, 'graceful')
          assert.notEqual(await lifeOf(id), life)
        },
      },
      { skip },
    )

  story(
    `${monitor}: an idle guest sleeps, and wakes on its first packet`,
    {
      'it is saved without its free memory': async () => {
        await makeBare(one, { monitor, memoryMib: MEMORY_MIB })
        life = await lifeOf(id)
        await sleepAfter(id, IDLE_SECONDS, MEMORY_MIB)
        const { observed } = await asleep(id)
        const savedMib = observed.saved_state?.size_mib ?? Infinity
        assert.ok(savedMib < MEMORY_MIB / 4, `${savedMib} MiB are saved`)
        assert.equal(await mainPid(`vmhost-${id}`), '0')
      },
      'the first datagram reaches it': async () => {
        const before = (await asleep(id)).observed.last_wake?.at
        await udpEcho(ipv4)
        const { last_wake: wake } = (await awake(id, before)).observed
        assert.equal(wake?.reason, 'traffic')
        assert.equal(wake?.dropped_packets, 0)
        await assertSame()
      },
      'its disk and its limits are as before, and it can be saved again': async () => {
        await asleep(id)
        await mutate('PUT', `/v1/vms/${id}/disk`, { size_mib: 128, iops_max: IOPS })
        await until('the guest sees its disk', async () =>
          (await getVm(id)).observed.disk?.guest_size_mib === 128 ? true : undefined,
        )
        assert.equal(await askBare(id, 'size', /size (\d+) sectors/, ipv4), String(128 * 2048))
        await wakeByRequest()
        assert.equal(await askBare(id, 'size', /size (\d+) sectors/, ipv4), String(128 * 2048))
        await assertSame()
      },
      ...(isFirecracker && {
        'its clock is right, and its generation is another one': async () => {
          const generation = await askBare(id, 'vmgenid', /vmgenid ([0-9a-f]{32})\r\n/, ipv4)
          await wakeByRequest()
          const askedMs = Date.now()
          const guestMs = Number(await askBare(id, 'time', /time (\d+)\r\n/, ipv4)) / 1e6
          // The guest answered at some time between the question and now.
          const behindMs = Math.max(askedMs - guestMs, 0) + Math.min(Date.now() - guestMs, 0)
          assert.ok(Math.abs(behindMs) < 5000, `its clock is ${behindMs.toFixed(0)} ms behind`)
          assert.notEqual(await askBare(id, 'vmgenid', /vmgenid ([0-9a-f]{32})\r\n/, ipv4), generation)
        },
      }),
    },
    { skip },
  )

  story(
    `${monitor}: no death of the daemon costs a guest or a packet`,
    {
      'a guest that sleeps': async () => {
        await makeBare(one, { monitor, memoryMib: MEMORY_MIB })
        life = await lifeOf(id)
        await sleepAfter(id, IDLE_SECONDS, MEMORY_MIB)
      },
      ...Object.fromEntries(
        [0, 20, 60, 120].map((ms) => [
          `${ms} ms after the first packet`,
          async () => {
            await asleep(id)
            await Promise.all([udpEcho(ipv4), sh('sleep', String(ms / 1000)).then(() => crashDaemon())])
            await assertSame()
          },
        ]),
      ),
      ...Object.fromEntries(
        savingFiles(id).map(([when, folder, name]) => [
          when,
          async () => {
            await udpEcho(ipv4)
            await crashWhenMade(folder, name)
            await assertSame()
            await wakeByRequest()
            await assertSame()
          },
        ]),
      ),
      'and it goes': () => remove(id),
    },
    { skip },
  )
}
