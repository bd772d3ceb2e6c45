import { systemClock } from '../../src/host/system-clock.ts'
import { BandwidthLimit } from '../../src/host/object-store/transfer-limits.ts'
import { HttpObjectStore } from '../../src/host/object-store/http-object-store.ts'
import { Outbound } from '../../src/host/outbound/outbound-request.ts'
import { FakeObjectStore } from '../fakes/fake-object-store.ts'
import type { FakeUpload } from '../fakes/fake-object-store.ts'
import { ANYWHERE } from '../fakes/outbound.ts'
import { objectStoreContract } from './object-store.contract.ts'
import type { StagedUpload } from './object-store.contract.ts'
import { serveObjectStore } from './object-store-server.ts'

const staged = (world: FakeObjectStore, upload: FakeUpload): StagedUpload => {
  const expired = upload.partUrls(9)
  upload.expireUrls()
  return {
    partUrl: (number) => upload.partUrl(number),
    completeUrl: upload.completeUrl,
    headUrl: upload.headUrl,
    expiredPartUrl: (number) => expired[number - 1] ?? '',
    abort: () => upload.abort(),
    object: async () => world.objects.get(upload.key),
  }
}

for (const forgetsCompleted of [false, true]) {
  const memory = forgetsCompleted ? ' that forgets' : ''
  objectStoreContract(`fake object store${memory}`, async () => {
    const store = new FakeObjectStore({ forgetsCompleted })
    return { store, openUpload: () => staged(store, store.openUpload()) }
  })

  objectStoreContract(`HTTP object store${memory}`, async (t) => {
    const server = await serveObjectStore({ forgetsCompleted })
    const outbound = new Outbound({
      policy: { ...ANYWHERE, allowHttp: true, allowedNetworks: ['127.0.0.0/8'] },
    })
    t.after(async () => {
      outbound.close()
      await server.stop()
    })
    const limit = new BandwidthLimit(0, systemClock)
    const store = new HttpObjectStore({ outbound, limit, clock: systemClock })
    return { store, openUpload: () => staged(server.world, server.world.openUpload()) }
  })
}
