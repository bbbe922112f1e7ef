//! What stands for the ports behind the API: an engine of three classes, tools for pictures of one pixel, a clock and threads.

use super::*;

impl BlockingPool for AtOnce {
    fn run(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }
}

#[async_trait]
impl ImageTools for OnePixel {
    async fn probe(&self, _: Blob) -> Result<PictureInfo, ImageToolsError> {
        Ok(PictureInfo {
            media_type: "image/png",
            width: 1,
            height: 1,
        })
    }

    async fn thumbnail(&self, _: Blob, _: u32) -> Result<MadePicture, ImageToolsError> {
        Err(ImageToolsError::Absent)
    }

    async fn preview(&self, _: Blob, _: PreviewOptions) -> Result<MadePicture, ImageToolsError> {
        Err(ImageToolsError::Absent)
    }

    async fn channel(&self, _: Blob, _: PictureChannel) -> Result<MadePicture, ImageToolsError> {
        Err(ImageToolsError::Absent)
    }

    async fn mask(&self, _: Blob, _: Blob) -> Result<MadePicture, ImageToolsError> {
        Err(ImageToolsError::Absent)
    }
}

#[async_trait]
impl Timer for Clock {
    fn now(&self) -> Timestamp {
        *self.0.lock().expect("no test panics here")
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[async_trait]
impl Engine for Classes {
    fn availability(&self) -> Availability {
        *self.available.lock().expect("no test panics here")
    }

    fn nodes(&self) -> NodeCatalog {
        self.catalog.clone()
    }

    fn capacity(&self, _: &Requirements) -> usize {
        usize::MAX
    }

    fn model_files(&self, _: &ValidGraph) -> BTreeSet<ModelFile> {
        BTreeSet::new()
    }

    fn workers(&self) -> Option<&dyn EngineWorkers> {
        None
    }

    async fn run(&self, _: Ticket, _: RunContext) -> Result<(), RunError> {
        unreachable!("these tests have a worker of their own")
    }
}

pub(super) fn catalog() -> NodeCatalog {
    let image = OutputDefinition {
        io_type: "IMAGE".to_owned(),
        name: "IMAGE".to_owned(),
        is_list: false,
        tooltip: None,
    };
    let file = Socket::File {
        source: FileSource::Input,
        listed: true,
    };
    let width = json!({"default": 512, "min": 1, "max": 16384});
    let empty = input("width", Socket::Int, &width);
    let load = input("image", file, &json!({}));
    let images = input("images", Socket::Link("IMAGE".to_owned()), &json!({}));
    NodeCatalog::new([
        class("EmptyImage", vec![empty], vec![image.clone()], false),
        class("LoadImage", vec![load], vec![image], false),
        class("SaveImage", vec![images], Vec::new(), true),
    ])
}

fn input(name: &str, socket: Socket, options: &Value) -> InputDefinition {
    let options = options.as_object().cloned().unwrap_or_default();
    InputDefinition {
        name: name.to_owned(),
        socket,
        required: true,
        lazy: false,
        options,
    }
}

fn class(
    name: &str,
    inputs: Vec<InputDefinition>,
    outputs: Vec<OutputDefinition>,
    output_node: bool,
) -> NodeDefinition {
    NodeDefinition {
        class: name.to_owned(),
        display_name: None,
        description: String::new(),
        python_module: "nodes".to_owned(),
        category: "image".to_owned(),
        inputs,
        hidden: Vec::new(),
        outputs,
        output_node,
        takes_lists: false,
        not_idempotent: false,
        accepts_all: false,
        fills_defaults: false,
        partner: None,
        extra: Map::new(),
        shown: None,
    }
}
