import { FakeFigures } from '../fakes/fake-figures.ts'
import { figuresContract } from './figures.contract.ts'

const MIB = 1024 * 1024

figuresContract('fake figures', () => {
  const figures = new FakeFigures()
  return {
    figures,
    poolId: figures.poolId,
    addImage: (sha256, bytes) => void figures.poolImages.set(sha256, Math.ceil(bytes / MIB)),
    setInSight: (inSight) => figures.setInSight(inSight),
    addAddress: (address) => void figures.hostAddresses.add(address),
    removeAddress: (address) => void figures.hostAddresses.delete(address),
  }
})
