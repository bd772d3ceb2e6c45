import { FakeGuestProbes } from '../fakes/fake-guest-probes.ts'
import { guestProbesContract } from './guest-probes.contract.ts'

guestProbesContract('fake guest probes', async () => {
  const probes = new FakeGuestProbes()
  const place = { address: '192.0.2.10', port: 80 }
  return {
    probes,
    serve: async (paths) => {
      probes.serving.set(`${place.address} ${place.port}`, paths)
      return place
    },
    closed: async () => place,
    end: () => {},
  }
})
