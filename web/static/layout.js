// A layered layout of a graph without cycles, as Sugiyama, Tagawa and Toda have described it: nodes
// in layers by their longest way from a source, an order within each layer with few crossings, then
// places. Edges over several layers pass through nodes without size, so that they avoid others.

// place returns nodes as a map of id to {x, y}, edges with their points, and the size of the whole.
// Nodes are ids, edges are {from, to}; width and height are those of a node, gaps between two.
export function place(ids, edges, { width, height, gapX, gapY }) {
  const nodes = new Map(ids.map((id) => [id, { id, before: [], after: [], layer: 0, size: height }]));
  const real = edges.filter((e) => nodes.has(e.from) && nodes.has(e.to) && e.from !== e.to);
  const acyclic = withoutCycles(nodes, real);
  rank(nodes, acyclic);
  const chains = split(nodes, acyclic);
  const layers = [];
  for (const node of nodes.values()) (layers[node.layer] ??= []).push(node);
  order(layers);
  straighten(layers, gapY);
  const top = Math.min(0, ...[...nodes.values()].map((n) => n.y));
  let right = 0;
  let bottom = 0;
  for (const node of nodes.values()) {
    node.y -= top;
    node.x = node.layer * (width + gapX);
    right = Math.max(right, node.x + width);
    bottom = Math.max(bottom, node.y + node.size);
  }
  const middle = (node) => node.y + node.size / 2;
  return {
    nodes: new Map(ids.map((id) => [id, { x: nodes.get(id).x, y: nodes.get(id).y }])),
    edges: chains.map(({ edge, chain }) => ({
      ...edge,
      points: chain.flatMap((node, i) => [
        i === 0 ? null : { x: node.x, y: middle(node) },
        i === chain.length - 1 ? null : { x: node.x + width, y: middle(node) },
      ]).filter(Boolean),
    })),
    width: right, height: bottom,
  };
}

// withoutCycles leaves out edges that close a cycle: superd refuses them, but a reload may come
// between two answers.
function withoutCycles(nodes, edges) {
  const out = new Map([...nodes.keys()].map((id) => [id, []]));
  for (const e of edges) out.get(e.from).push(e);
  const mark = new Map();
  const kept = [];
  for (const root of nodes.keys()) {
    if (mark.has(root)) continue;
    mark.set(root, "open");
    const stack = [[root, 0]];
    while (stack.length) {
      const top = stack.at(-1);
      const edge = out.get(top[0])[top[1]++];
      if (!edge) {
        mark.set(top[0], "done");
        stack.pop();
      } else if (mark.get(edge.to) !== "open") {
        kept.push(edge);
        if (!mark.has(edge.to)) {
          mark.set(edge.to, "open");
          stack.push([edge.to, 0]);
        }
      }
    }
  }
  return kept;
}

// rank gives each node the layer behind the last of those before it.
function rank(nodes, edges) {
  const waiting = new Map([...nodes.keys()].map((id) => [id, 0]));
  const out = new Map([...nodes.keys()].map((id) => [id, []]));
  for (const e of edges) {
    waiting.set(e.to, waiting.get(e.to) + 1);
    out.get(e.from).push(e.to);
  }
  const queue = [...nodes.keys()].filter((id) => waiting.get(id) === 0);
  for (let i = 0; i < queue.length; i++) {
    const { layer } = nodes.get(queue[i]);
    for (const to of out.get(queue[i])) {
      const node = nodes.get(to);
      node.layer = Math.max(node.layer, layer + 1);
      waiting.set(to, waiting.get(to) - 1);
      if (waiting.get(to) === 0) queue.push(to);
    }
  }
}

// split puts a node without size into each layer that an edge passes.
function split(nodes, edges) {
  let n = 0;
  return edges.map((edge) => {
    const chain = [nodes.get(edge.from)];
    const end = nodes.get(edge.to);
    for (let layer = chain[0].layer + 1; layer < end.layer; layer++) {
      const node = { id: `\u0000${n++}`, before: [], after: [], layer, size: 8 };
      nodes.set(node.id, node);
      chain.push(node);
    }
    chain.push(end);
    for (let i = 1; i < chain.length; i++) {
      chain[i - 1].after.push(chain[i]);
      chain[i].before.push(chain[i - 1]);
    }
    return { edge, chain };
  });
}

// order sorts each layer by the mean place of its neighbours, there and back, and keeps the best.
function order(layers) {
  const number = () => layers.forEach((layer) => layer.forEach((node, i) => { node.place = i; }));
  number();
  let best = crossings(layers);
  let kept = layers.map((layer) => [...layer]);
  for (let round = 0; round < 12 && best > 0; round++) {
    const forward = round % 2 === 0;
    const list = forward ? layers.slice(1) : layers.slice(0, -1).reverse();
    for (const layer of list) {
      for (const node of layer) {
        const others = forward ? node.before : node.after;
        node.weight = others.length
          ? others.reduce((sum, o) => sum + o.place, 0) / others.length : node.place;
      }
      layer.sort((a, b) => a.weight - b.weight || a.place - b.place);
      layer.forEach((node, i) => { node.place = i; });
    }
    const count = crossings(layers);
    if (count < best) {
      best = count;
      kept = layers.map((layer) => [...layer]);
    }
  }
  kept.forEach((layer, i) => { layers[i] = layer; });
  number();
}

// crossings counts pairs of edges between two layers that cross. Beyond a thousand edges between
// two layers they count as none, since nobody could tell them apart.
function crossings(layers) {
  let count = 0;
  for (const layer of layers) {
    const ends = layer.flatMap((node) => node.after.map((o) => o.place).sort((a, b) => a - b));
    if (ends.length > 1000) continue;
    for (let i = 0; i < ends.length; i++) {
      for (let j = i + 1; j < ends.length; j++) if (ends[i] > ends[j]) count++;
    }
  }
  return count;
}

// straighten moves nodes toward the mean of their neighbours, as far as the order in the layer lets
// them.
function straighten(layers, gap) {
  for (const layer of layers) {
    let y = 0;
    for (const node of layer) {
      node.y = y;
      y += node.size + gap;
    }
  }
  const middle = (node) => node.y + node.size / 2;
  for (let round = 0; round < 16; round++) {
    const list = round % 2 === 0 ? layers : [...layers].reverse();
    for (const layer of list) {
      for (const node of layer) {
        const others = round % 4 < 2 ? [...node.before, ...node.after]
          : round % 2 === 0 ? node.before : node.after;
        node.want = others.length
          ? others.reduce((sum, o) => sum + middle(o), 0) / others.length - node.size / 2 : node.y;
      }
      spread(layer, gap);
    }
  }
}

// spread gives nodes of a layer the places they want, or the nearest ones without overlap: those
// that would overlap form a block, which lies where its nodes want it on average.
function spread(layer, gap) {
  const blocks = [];
  for (const node of layer) {
    let block = { nodes: [node], size: node.size, sum: node.want, y: node.want };
    while (blocks.length && blocks.at(-1).y + blocks.at(-1).size + gap > block.y) {
      const above = blocks.pop();
      const shift = above.size + gap;
      block = {
        nodes: [...above.nodes, ...block.nodes], size: above.size + gap + block.size,
        sum: above.sum + block.sum - shift * block.nodes.length,
      };
      block.y = block.sum / block.nodes.length;
    }
    blocks.push(block);
  }
  for (const block of blocks) {
    let { y } = block;
    for (const node of block.nodes) {
      node.y = y;
      y += node.size + gap;
    }
  }
}
